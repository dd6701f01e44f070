#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "consumer/sinks/durability.hpp"
#include "consumer/sinks/postgres_database.hpp"

namespace offramp {

// What all tables of one kind of results have in common. Its texts outlive whoever uses it.
struct PostgresLayout {
    struct Second {
        std::string_view suffix;   // behind the name of the first one; empty: there is no second table
        std::string_view columns;  // in SQL
    };

    std::string_view contents;        // "embeddings"
    std::string_view version;         // another number is another layout
    bool needs_pgvector = false;
    Second second;                    // of a few rows that say what the others are
    std::string_view indexed;         // columns of a further index; empty: there is none
};

// In SQL, with types and keys; known when there are rows.
struct PostgresColumns {
    std::string rows;    // of the table
    std::string copied;  // of the temporary table that rows are copied to
};

// Where a table is.
struct PostgresTarget {
    std::string sink;                   // as PostgresDatabase takes it
    std::string table;                  // NAME or SCHEMA.NAME
    std::string next_table{};           // where rows are until the run has come to its end; empty: there
    std::chrono::seconds patience{300}; // PostgresDatabase's; not with what is done when the run has ended
};

// The results of a run in a PostgreSQL, which all its consumers write to: a table NAME, perhaps with a second one; made with the first rows. That it is ours, what
// it holds, the layout's version and a number of its own stand in the tables' comments: "offramp embeddings 1 5f0c...".
//
// In the output folder lies a hidden mark, ".offramp-made-embeddings-postgres", with that number: when the mark is there and the table is
// not, somebody took it away with results that count as done, and another must not be begun in its place. Its second line names the table.
//
// Where a former run's table is, a new run's rows go beside it, into PostgresTarget::next_table, which takes its place when the run has come to its end.
//
// Owns the connection, which holds a shared advisory lock on the table's name: nobody starts over beneath a consumer. Thread, blocks: as
// PostgresDatabase. Errors: those of PostgresDatabase; Error with SinkUnavailable when the table was taken away; ConfigError when it is
// not one of ours, or holds other results, when another run has begun it anew, and without pgvector.
class PostgresTable {
  public:
    // Connects, and looks at a table that is there.
    PostgresTable(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target, Durability durability);

    // Runs `work` in a transaction (PostgresDatabase::transact), in which the temporary table `offramp_rows` is there and empty. `columns`: of a table that is
    // made now; those that are copied are the first call's. `progress` is told while the server works.
    void transact(const PostgresColumns& columns, const std::function<void()>& progress, const std::function<void(PostgresDatabase& database)>& work);

    // "table 'embeddings' of PostgreSQL database ...", for errors.
    std::string name() const;
    // As they stand in SQL.
    const std::string& rows() const { return rows_; }
    const std::string& second() const { return second_; }   // empty: there is none

  private:
    void open(const PostgresColumns& columns);
    void make(const PostgresColumns& columns);

    PostgresLayout layout_;
    std::string mark_, table_, at_, rows_, second_;   // at_: where the rows are now
    Durability durability_;
    PostgresDatabase database_;
    bool opened_ = false;
};

// When nobody writes any more: `complete` adds what a table has only when it is whole. A run without a table has nothing to finish. Errors: those of
// PostgresTable and of `complete`.
void finish_postgres_table(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target,
                           const std::function<void(PostgresDatabase& database, const std::string& table)>& complete);
// The run has come to its end: its table says so, and is not replaced any more unless that is asked for.
void mark_postgres_table_ended(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target);

enum class PostgresTableState {
    Absent,
    Unfinished,
    Ended,      // a run came to its end with it
};
// What lies in the way of a new table: nothing, or one of ours. Changes nothing. Errors: those of PostgresTable; Error with RunInUse when a consumer of another
// run is connected for it.
PostgresTableState look_at_postgres_table(const PostgresLayout& layout, const PostgresTarget& target);
// The folder's mark says that there is a table of its run's.
bool has_postgres_mark(const PostgresLayout& layout, const std::string& folder);
// Errors: ConfigError, for a table that is there and that no mark in the folder tells of.
void require_continued_postgres_table(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target);
std::string postgres_table_name(const PostgresTarget& target);   // "table 'embeddings' of PostgreSQL database ..."; connects

// The tables of the run whose mark lies in the folder `next` take the place of those that its mark names, in one transaction; then the mark that of the one in `folder`.
// May be killed and called again. Nothing is done without a mark. Errors: those of PostgresTable, before anything is replaced; RunInUse as above.
void put_postgres_table_in_place(const PostgresLayout& layout, const std::string& next, const std::string& folder, const PostgresTarget& target);
// Removes the tables beside that the mark in `next` tells of, and which nobody can continue any more; then the mark.
void remove_next_postgres_table(const PostgresLayout& layout, const std::string& next, const PostgresTarget& target);

// NAME or SCHEMA.NAME with `suffix`, each part quoted.
std::string table_in_sql(const std::string& table, std::string_view suffix = {});
// SCHEMA.NAME, where the schema was left out that in which it would be made.
std::string with_schema(PostgresDatabase& database, const std::string& table);

}  // namespace offramp
