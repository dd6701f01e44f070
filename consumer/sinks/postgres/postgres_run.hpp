#pragma once

#include <functional>
#include <string>

#include "consumer/sinks/postgres/postgres_database.hpp"
#include "consumer/sinks/postgres/postgres_ownership.hpp"

namespace offramp {

// Handles the tables of runs (PostgresTable) before a run begins, and after all writers have ended.

// After all writers have ended: `complete` adds what a table has only when it is whole. A run without a table has
// nothing to finish. Errors: those of PostgresTable and of `complete`.
void finish_postgres_table(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target,
                           const std::function<void(PostgresDatabase& database, const std::string& table)>& complete);
// The run has come to its end: its table records that, and is only replaced on request.
void mark_postgres_table_ended(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target);

// Whether a table is in the place of the run into `folder`. Changes nothing. Errors: those of
// PostgresTable; Error with RunInUse when a consumer of another run is connected for it; without `overwrite`
// ConfigError when it is another job's that is not merged.
bool look_at_postgres_table(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target,
                            bool overwrite);
// True if the folder's mark names a table of its run.
bool has_postgres_mark(const PostgresLayout& layout, const std::string& folder);
// Errors: ConfigError, for an existing table without a mark in the folder.
void require_continued_postgres_table(const PostgresLayout& layout, const std::string& folder,
                                      const PostgresTarget& target);
std::string postgres_table_name(
    const PostgresTarget& target);  // "table 'embeddings' of PostgreSQL database ..."; connects

// Renames the tables of an earlier run to NAME_before_RUN, with their indexes, rights, views and whatever else belongs
// to them; nothing where there are none. Returns the new name; empty: nothing was renamed. Errors: those of
// find_offramp_table(); RunInUse; ConfigError where that name is too long; NotPermitted where the table is another
// user's.
std::string set_postgres_table_aside(const PostgresLayout& layout, const PostgresTarget& target,
                                     const std::string& run_id);
// Undoes that where the run has made no table. May be killed and called again.
void put_postgres_table_back(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target,
                             const std::string& run_id);

}  // namespace offramp
