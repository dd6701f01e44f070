#pragma once

#include <string>
#include <string_view>

#include "consumer/sinks/postgres/postgres_database.hpp"

namespace offramp {

// Makes NAME_hnsw, an index by cosine of the column `vector` of table NAME; where its vectors have several lengths one
// for each output, NAME_hnsw_1 and so on, by what the columns `output` and `dimensions` of the table NAME +
// `outputs_suffix` say. Indexes that are there stay. One whose maker was killed, and which the server goes on with, is
// waited for. Blocks: for as long as it takes. Errors: those of PostgresDatabase.
void make_hnsw_index(PostgresDatabase& database, const std::string& table, std::string_view outputs_suffix);

}  // namespace offramp
