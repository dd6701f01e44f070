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

// The table of `processor` in the database of --sink, which it declares (ProcessorResults). `complete`, if any, adds
// what it has only when it is whole. Errors: those of PostgresTable.
using CompleteTable = std::function<void(PostgresDatabase& database, const std::string& table)>;
std::unique_ptr<RunOutput> postgres_rows(std::string_view processor, const PostgresLayout& layout,
                                         const CatalogueValues& settings, CompleteTable complete = {});

// Where the rows of `processor` go. Errors: ConfigError without --sink.
PostgresTarget postgres_target(const ProcessorOptions& options, std::string_view processor,
                               const PostgresLayout& layout);

}  // namespace offramp
