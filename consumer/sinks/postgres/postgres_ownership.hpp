#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "consumer/sinks/postgres/postgres_database.hpp"

// Ownership of PostgreSQL tables, recorded in the table's comment and the mark in the output folder
// (postgres_table.hpp). For code that fills, finishes and replaces tables.
namespace offramp {

// The common properties of all tables for one kind of results. Its texts must outlive its users.
struct PostgresLayout {
    struct Second {
        std::string_view suffix;   // appended to the first table's name; empty: there is no second table
        std::string_view columns;  // in SQL
    };

    std::string_view contents;  // "embeddings"
    std::string_view version;   // identifies the layout; another version is another layout
    std::string_view columns;   // the columns that rows always have, by name, separated by ", "
    bool needs_pgvector = false;
    Second second;             // a few rows that describe the others
    std::string_view indexed;  // columns of a further index; empty: none
};

// The location of a table.
struct PostgresTarget {
    std::string sink;                    // in the form that PostgresDatabase accepts
    std::string table;                   // NAME or SCHEMA.NAME
    std::string job{};                   // owns the table, whichever shard created it; empty: a run owns it
    std::chrono::seconds patience{300};  // for PostgresDatabase; steps after the run's end have no limit
};

// The mark that a run leaves in its output folder. Missing lines are empty.
struct PostgresMark {
    std::string number;
    std::string table;     // SCHEMA.NAME
    std::string database;  // as PostgresDatabase::name() returns it
};
std::string postgres_mark_of(const PostgresLayout& layout, const std::string& folder);
// "table 'public.embeddings' of PostgreSQL database ...", for errors.
std::string named(const PostgresMark& mark);
// Returns nothing if the mark is missing.
std::optional<PostgresMark> read_postgres_mark(const std::string& path);
// Writes the mark at `path` for `folder`, too. Errors: SystemError with CannotWrite.
void put_postgres_mark(const PostgresLayout& layout, const std::string& path, const std::string& folder);

// The contents of a table's comment.
struct FoundTable {
    bool there = false;
    bool ours = false;
    bool ended = false;  // its run has ended
    std::string version;
    std::string number;
    std::string further{};  // further columns that its rows were created with, beyond the layout's, separated by ", "
};
// The suffixes that table names have after NAME.
std::vector<std::string> suffixes_of(const PostgresLayout& layout);
// The comment for a `table` of this version: "offramp embeddings 1 5f0c...", "offramp embeddings 1 ended 5f0c...", or
// "offramp embeddings 1 with id, columns 5f0c...".
std::string comment_of(const PostgresLayout& layout, const FoundTable& table);
// Checks that all tables belong to Offramp or are missing, and returns the one with the rows. Errors: ConfigError for a
// foreign table.
FoundTable find_offramp_table(PostgresDatabase& database, const PostgresLayout& layout, const std::string& table);
// Errors: ConfigError for a table of another version, or of another run than the mark names.
void require_marked(const FoundTable& found, const PostgresLayout& layout, const std::string& table,
                    const PostgresDatabase& database, const std::string& mark);
// The number of a job's table. Shards know it before they have a mark.
std::string number_of_job(const std::string& job, const std::string& random);
// Errors: ConfigError if the table belongs to another job or run, even without a mark.
void require_of_job(const FoundTable& found, const PostgresTarget& target, const std::string& table,
                    const PostgresDatabase& database, const std::string& mark);
// Checks a table before a run replaces it. Errors: ConfigError if it belongs to a job that is not merged, and the mark
// does not name it: shards may fill it for days.
void require_no_job_under_way(const FoundTable& found, const std::string& table, const PostgresDatabase& database,
                              const std::string& mark);
// The table of the run that wrote this mark. Errors: as above; Error with SinkUnavailable when the table is gone.
FoundTable find_marked(PostgresDatabase& database, const PostgresLayout& layout, const std::string& mark,
                       const std::string& table);
// Errors: Error with SinkUnavailable; ConfigError if the mark names another database.
[[noreturn]] void fail_table_removed(const std::string& table, const PostgresDatabase& database,
                                     const std::string& mark);
// The table with the mark's number: the one that the mark names, or the target's. Without a mark, the target's.
std::string where_rows_are(PostgresDatabase& database, const PostgresLayout& layout, const std::string& mark,
                           const PostgresTarget& target);

// The key of the lock on a table, the same for NAME and SCHEMA.NAME. Consumers share the lock.
std::string lock_of(PostgresDatabase& database, const PostgresLayout& layout, const std::string& table);
// Takes the lock exclusively. Errors: Error with RunInUse while a consumer of any run is connected for this table.
void lock_alone(PostgresDatabase& database, const PostgresLayout& layout, const std::string& table);

// "table 'embeddings' of PostgreSQL database ...", for errors.
std::string named(const std::string& table, const PostgresDatabase& database);
// NAME or SCHEMA.NAME with `suffix`; each part is quoted.
std::string table_in_sql(const std::string& table, std::string_view suffix = {});
// SCHEMA.NAME; a missing schema becomes the one where the table would be created.
std::string with_schema(PostgresDatabase& database, const std::string& table);

// Steps on the tables of runs (PostgresTable), before a run begins and after all writers have ended.

// Call after all writers have ended. `complete` adds the parts that only a complete table has. Does nothing for a run
// without a table. Errors: those of PostgresTable and of `complete`.
void finish_postgres_table(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target,
                           const std::function<void(PostgresDatabase& database, const std::string& table)>& complete);
// Records in the table that the run has ended. Such a table is replaced only on request.
void mark_postgres_table_ended(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target);

// Returns true if a table exists where the run into `folder` would create one. Changes nothing. Errors: those of
// PostgresTable; Error with RunInUse when a consumer of another run is connected for it; without `overwrite`,
// ConfigError when another, unmerged job owns it.
bool look_at_postgres_table(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target,
                            bool overwrite);
// True if the folder's mark names a table of its run.
bool has_postgres_mark(const PostgresLayout& layout, const std::string& folder);
// Errors: ConfigError for an existing table if the folder has no mark.
void require_continued_postgres_table(const PostgresLayout& layout, const std::string& folder,
                                      const PostgresTarget& target);
std::string postgres_table_name(
    const PostgresTarget& target);  // "table 'embeddings' of PostgreSQL database ..."; connects

// Renames the tables of an earlier run to NAME_before_RUN, with their indexes, rights, views and other dependent
// objects. Returns the new name; empty: nothing was renamed. Errors: those of find_offramp_table(); RunInUse;
// ConfigError if the new name is too long; NotPermitted if another user owns the table.
std::string set_postgres_table_aside(const PostgresLayout& layout, const PostgresTarget& target,
                                     const std::string& run_id);
// Undoes set_postgres_table_aside() if the run has made no table. May be killed and called again.
void put_postgres_table_back(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target,
                             const std::string& run_id);

}  // namespace offramp
