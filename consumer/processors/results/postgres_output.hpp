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

// A table in the database of --sink. `complete`, if any, adds what it has only when it is whole. Errors: those of
// PostgresTable.
using CompleteTable = std::function<void(PostgresDatabase& database, const std::string& table)>;
std::unique_ptr<RunOutput> postgres_rows(const PostgresLayout& layout, const CatalogueValues& settings,
                                         CompleteTable complete = {});

// Where the rows go of a processor that puts `contents` into a PostgreSQL, CONTENTS-postgres. Errors: ConfigError
// without --sink.
PostgresTarget postgres_target(const ProcessorOptions& options, std::string_view contents);

}  // namespace offramp
