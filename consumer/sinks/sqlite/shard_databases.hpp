#pragma once

#include <span>
#include <string>

#include "common/base/durability.hpp"
#include "consumer/sinks/segments/shard_parts.hpp"

namespace offramp {

// Makes one database, FOLDER/NAME.sqlite, of those that shards of a job filled, each in the folder of its part: every
// table, and of tables of items the rows of the part's own. It is filled beside its place and put there whole
// (put_database_in_place()). The parts stay. Where no part has one, nothing is done. Killed at any point and called
// again, the result is the same. Errors: as there, and those of SqliteDatabase.
void join_databases(std::span<const ShardPart> parts, const std::string& folder, const std::string& name,
                    Durability durability);

}  // namespace offramp
