#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "consumer/sinks/postgres/postgres_database.hpp"

// Whose a table in a PostgreSQL is: its comment and the mark in the output folder say it (postgres_table.hpp). For
// those who write to tables, finish and replace them.
namespace offramp {

// Common facts of all tables of one kind of results. Its texts outlive its users.
struct PostgresLayout {
    struct Second {
        std::string_view suffix;   // behind the name of the first one; empty: there is no second table
        std::string_view columns;  // in SQL
    };

    std::string_view contents;  // "embeddings"
    std::string_view version;   // another number is another layout
    std::string_view columns;   // that the rows always have, by name, with ", " between
    bool needs_pgvector = false;
    Second second;             // of a few rows that say what the others are
    std::string_view indexed;  // columns of a further index; empty: there is none
};

// Where a table is.
struct PostgresTarget {
    std::string sink;                    // as PostgresDatabase takes it
    std::string table;                   // NAME or SCHEMA.NAME
    std::string job{};                   // the owner of the table, whichever shard created it; empty: a run
    std::chrono::seconds patience{300};  // PostgresDatabase's; not with what is done when the run has ended
};

// The mark that a run leaves in its output folder. Missing lines are empty.
struct PostgresMark {
    std::string number;
    std::string table;     // SCHEMA.NAME
    std::string database;  // as PostgresDatabase::name() calls it
};
std::string postgres_mark_of(const PostgresLayout& layout, const std::string& folder);
// "table 'public.embeddings' of PostgreSQL database ...", for errors.
std::string named(const PostgresMark& mark);
// Nothing when there is none.
std::optional<PostgresMark> read_postgres_mark(const std::string& path);
// The mark at `path` is `folder`'s, too. Errors: SystemError with CannotWrite.
void put_postgres_mark(const PostgresLayout& layout, const std::string& path, const std::string& folder);

// The contents of a table's comment.
struct FoundTable {
    bool there = false;
    bool ours = false;
    bool ended = false;  // its run came to its end
    std::string version;
    std::string number;
    std::string further{};  // columns of the rows that it was made with beside the layout's, with ", " between
};
// The suffixes of the tables after NAME.
std::vector<std::string> suffixes_of(const PostgresLayout& layout);
// "offramp embeddings 1 5f0c...", "offramp embeddings 1 ended 5f0c...", "offramp embeddings 1 with id, columns
// 5f0c...": the comment for `table`, of this version.
std::string comment_of(const PostgresLayout& layout, const FoundTable& table);
// All tables are ours, or are not there: the one with the rows. Errors: ConfigError for another's.
FoundTable find_offramp_table(PostgresDatabase& database, const PostgresLayout& layout, const std::string& table);
// Errors: ConfigError for a table of another version, or of another run than the mark's.
void require_marked(const FoundTable& found, const PostgresLayout& layout, const std::string& table,
                    const PostgresDatabase& database, const std::string& mark);
// Number of a job's table: its shards know it before they have a mark.
std::string number_of_job(const std::string& job, const std::string& random);
// Errors: ConfigError where the table is another job's or run's, for which there need be no mark.
void require_of_job(const FoundTable& found, const PostgresTarget& target, const std::string& table,
                    const PostgresDatabase& database, const std::string& mark);
// Check before a run replaces the table. Errors: ConfigError if the table belongs to a job that is not merged, which
// its shards may fill for days, and the mark does not name it.
void require_no_job_under_way(const FoundTable& found, const std::string& table, const PostgresDatabase& database,
                              const std::string& mark);
// The table of the run whose mark this is. Errors: as above; Error with SinkUnavailable when it is gone.
FoundTable find_marked(PostgresDatabase& database, const PostgresLayout& layout, const std::string& mark,
                       const std::string& table);
// Errors: Error with SinkUnavailable; ConfigError where the mark names another database than this one.
[[noreturn]] void fail_table_removed(const std::string& table, const PostgresDatabase& database,
                                     const std::string& mark);
// The table that the mark's number is on: the one that the mark names, or the target's. Without a mark: the target's.
std::string where_rows_are(PostgresDatabase& database, const PostgresLayout& layout, const std::string& mark,
                           const PostgresTarget& target);

// The lock of the users of a table, under any name: consumers share it.
std::string lock_of(PostgresDatabase& database, const PostgresLayout& layout, const std::string& table);
// Exclusive: only when no consumer of any run is connected for this table. Errors: Error with RunInUse.
void lock_alone(PostgresDatabase& database, const PostgresLayout& layout, const std::string& table);

// "table 'embeddings' of PostgreSQL database ...", for errors.
std::string named(const std::string& table, const PostgresDatabase& database);
// NAME or SCHEMA.NAME with `suffix`, each part quoted.
std::string table_in_sql(const std::string& table, std::string_view suffix = {});
// SCHEMA.NAME, where the schema was left out that in which it would be made.
std::string with_schema(PostgresDatabase& database, const std::string& table);

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
