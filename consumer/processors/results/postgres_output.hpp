#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "consumer/processors/results/run_output.hpp"
#include "consumer/sinks/postgres/postgres_ownership.hpp"

namespace offramp {

class CatalogueValues;
class PostgresDatabase;
struct ProcessorOptions;

// The table that `processor` declares in the database of --sink (ProcessorResults). `complete`, if set, adds the parts
// that only a complete table has. Errors: those of PostgresTable.
using CompleteTable = std::function<void(PostgresDatabase& database, const std::string& table)>;
std::unique_ptr<RunOutput> postgres_rows(std::string_view processor, const PostgresLayout& layout,
                                         const CatalogueValues& settings, CompleteTable complete = {});

// The target of `processor`'s rows. Errors: ConfigError without --sink.
PostgresTarget postgres_target(const ProcessorOptions& options, std::string_view processor,
                               const PostgresLayout& layout);

}  // namespace offramp
