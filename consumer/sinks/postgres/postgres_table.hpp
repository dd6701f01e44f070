#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/files.hpp"
#include "consumer/sinks/postgres/postgres_database.hpp"
#include "consumer/sinks/postgres/postgres_ownership.hpp"

namespace offramp {

// In SQL, with types and keys; known when there are rows.
struct PostgresColumns {
    std::string rows;       // of the table
    std::string copied;     // of the temporary table that rows are copied to
    std::string further{};  // of `rows`, by name, with ", " between: those that not each table of its layout has
};

// The results of a run in a PostgreSQL, which all its consumers write to: a table NAME, perhaps with a second one; made
// with the first rows. The tables' comments record that the table is Offramp's, its kind, the layout's version and a
// unique number: "offramp embeddings 1 5f0c..."; so do columns that not each table of its kind has, lest one that
// others have added under such a name counts as ours.
//
// In the output folder is a hidden mark, ".offramp-made-embeddings-postgres", with that number: when the mark is there
// and the table is not, it was removed with results that count as done, and another must not be begun in its place. Its
// other lines name the table and the database.
//
// A job's shards fill one table, whose number names the job: they know it before they have a mark, and no other takes
// it.
//
// Owns the connection, which holds a shared advisory lock on the table's name: no run replaces it beneath a consumer.
// Thread, blocks: as PostgresDatabase. Errors: those of PostgresDatabase; Error with SinkUnavailable when the table was
// taken away; ConfigError when it is not an Offramp table, or holds other results, when another run has begun it anew,
// and without pgvector.
class PostgresTable {
  public:
    // Connects, and looks at a table that is there.
    PostgresTable(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target,
                  Durability durability);

    // Runs `work` in a transaction (PostgresDatabase::transact), in which the temporary table `offramp_rows` is there
    // and empty. `columns`: of a table that is made now; those that are copied are the first call's. `progress` is
    // called while the server works.
    void transact(const PostgresColumns& columns, const std::function<void()>& progress,
                  const std::function<void(PostgresDatabase& database)>& work);

    // Checks the table that the rows go to; in a transaction. Errors: ConfigError if the table lacks one of these
    // further columns: another version of the program or a run over another input made it.
    void require_columns(const std::vector<std::string>& columns);
    // Whether the run that made the table gave it this further column.
    bool was_made_with(const std::string& column);
    // "table 'embeddings' of PostgreSQL database ...", for errors.
    std::string name() const;
    // As they stand in SQL.
    const std::string& rows() const { return rows_; }
    const std::string& second() const { return second_; }  // empty: there is none

  private:
    void require_own(const FoundTable& found) const;
    void open(const PostgresColumns& columns);
    void make(const PostgresColumns& columns);

    PostgresLayout layout_;
    std::string mark_;
    PostgresTarget target_;
    std::string table_, at_, rows_, second_;  // at_: where the rows are now
    Durability durability_;
    PostgresDatabase database_;
    bool opened_ = false;
};

// Makes NAME_hnsw, an index by cosine of the column `vector` of table NAME; where its vectors have several lengths one
// for each output, NAME_hnsw_1 and so on, by what the columns `output` and `dimensions` of the table NAME +
// `outputs_suffix` say. Indexes that are there stay. One whose maker was killed, and which the server goes on with, is
// waited for. Blocks: for as long as it takes. Errors: those of PostgresDatabase.
void make_hnsw_index(PostgresDatabase& database, const std::string& table, std::string_view outputs_suffix);

}  // namespace offramp
