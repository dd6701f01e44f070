#pragma once

#include <string>

#include "consumer/sinks/postgres/postgres_database.hpp"
#include "consumer/sinks/postgres/postgres_ownership.hpp"

namespace offramp {

// Changes by others to a run's tables that would be lost in a replacement: each is kept, an obstacle, or reported.

// Errors: ConfigError names what keeps the tables from being replaced: views, foreign keys and whatever else depends on
// them; row security; columns that are not ours. NotPermitted, where this user may not drop them.
void require_replaceable_table(PostgresDatabase& database, const PostgresLayout& layout, const std::string& table);
// The objects dropped with the tables: "index a, trigger b on table c"; empty: nothing.
std::string objects_removed_with(PostgresDatabase& database, const PostgresLayout& layout, const std::string& table);
// Gives the tables `to` the owner and the rights of the tables `from`. Errors: those of PostgresDatabase, NotPermitted
// above all.
void carry_rights(PostgresDatabase& database, const PostgresLayout& layout, const std::string& from,
                  const std::string& to);
// That it can be carried is tried with tables that are never visible.
void rehearse_carrying_rights(PostgresDatabase& database, const PostgresLayout& layout, const std::string& table);

}  // namespace offramp
