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

enum class PostgresTableState {
    Absent,
    Unfinished,
    Ended,  // a run came to its end with it
};
// The obstacle to a new table of the run into `folder`: nothing, or an Offramp table. Changes nothing. Errors: those of
// PostgresTable; Error with RunInUse when a consumer of another run is connected for it; without `overwrite`
// ConfigError when it is another job's that is not merged.
PostgresTableState look_at_postgres_table(const PostgresLayout& layout, const std::string& folder,
                                          const PostgresTarget& target, bool overwrite);
// Before a run whose tables will replace those that are there: looks that they can be, with their owner and the rights
// on them (replaced_table.hpp). Changes nothing. Returns what will go with them, as objects_removed_with(). Errors:
// ConfigError and NotPermitted, with what keeps them from it.
std::string look_at_replaced_table(const PostgresLayout& layout, const PostgresTarget& target);
// True if the folder's mark names a table of its run.
bool has_postgres_mark(const PostgresLayout& layout, const std::string& folder);
// Errors: ConfigError, for an existing table without a mark in the folder.
void require_continued_postgres_table(const PostgresLayout& layout, const std::string& folder,
                                      const PostgresTarget& target);
std::string postgres_table_name(
    const PostgresTarget& target);  // "table 'embeddings' of PostgreSQL database ..."; connects

// The tables of the run whose mark is in the folder `next` take the place of those that its mark names, in one
// transaction, and have their owner and the rights on them; then the mark that of the one in `folder`. May be killed
// and called again. Nothing is done without a mark. Errors: those of PostgresTable, before anything is replaced;
// RunInUse, and ConfigError without `overwrite`, as above.
void put_postgres_table_in_place(const PostgresLayout& layout, const std::string& next, const std::string& folder,
                                 const PostgresTarget& target, bool overwrite);
// Removes the tables that the mark in `next` names, which are beside the previous run's and cannot be continued any
// more; then the mark.
// Tables in a database of another --sink stay, and so does their mark.
void remove_next_postgres_table(const PostgresLayout& layout, const std::string& next, const PostgresTarget& target);

}  // namespace offramp
