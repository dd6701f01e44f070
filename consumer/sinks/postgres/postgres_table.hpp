#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/files.hpp"
#include "consumer/sinks/postgres/postgres_database.hpp"
#include "consumer/sinks/postgres/postgres_ownership.hpp"

namespace offramp {

// Columns in SQL, with types and keys; known once there are rows.
struct PostgresColumns {
    std::string rows;       // of the table
    std::string copied;     // of the temporary table into which rows are copied
    std::string further{};  // columns in `rows` that not every table of the layout has, by name, separated by ", "
};

// A run's results in PostgreSQL, which all its consumers write to: a table NAME, perhaps with a second one, created
// with the first rows. The tables' comments record that the table belongs to Offramp, its kind, the layout's version
// and a unique number: "offramp embeddings 1 5f0c...". They also record optional columns, so that a column which
// another user added under the same name is not mistaken for Offramp's.
//
// A hidden mark in the output folder, ".offramp-made-embeddings-postgres", has the same number. If the mark exists and
// the table does not, the table was removed with results that count as done, and no new one may replace it. The mark's
// other lines name the table and the database.
//
// A job's shards fill one table, whose number identifies the job. They know the number before they have a mark, and no
// other job uses the table.
//
// Owns the connection, which holds a shared advisory lock on the table's name, so that no run replaces the table under
// a consumer. Thread, blocks: as PostgresDatabase.
//
// Errors: those of PostgresDatabase; Error with SinkUnavailable when the table was removed; ConfigError when it is not
// an Offramp table, holds other results, was recreated by another run, or pgvector is missing.
class PostgresTable {
  public:
    // Connects, and checks an existing table.
    PostgresTable(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target,
                  Durability durability);

    // Runs `work` in a transaction (PostgresDatabase::transact) with an empty temporary table `offramp_rows`.
    // `columns`: for a table that is created now; the first call fixes the copied columns. `progress` is called while
    // the server works.
    void transact(const PostgresColumns& columns, const std::function<void()>& progress,
                  const std::function<void(PostgresDatabase& database)>& work);

    // Checks the table for these further columns; call it in a transaction. Errors: ConfigError if one is missing,
    // because another version of the program or a run over another input made the table.
    void require_columns(const std::vector<std::string>& columns);
    // True if the run that made the table gave it this further column.
    bool was_made_with(const std::string& column);
    // "table 'embeddings' of PostgreSQL database ...", for errors.
    std::string name() const;
    // The tables' names in SQL.
    const std::string& rows() const { return rows_; }
    const std::string& second() const { return second_; }  // empty if there is none

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

// Creates NAME_hnsw, a cosine index on the column `vector` of table NAME. If its vectors have several lengths, it
// creates one index per output, NAME_hnsw_1 and so on, according to `output` and `dimensions` in the table NAME +
// `outputs_suffix`. Existing indexes stay. It waits for an index that the server is still building after its creator
// was killed. Blocks: without limit. Errors: those of PostgresDatabase.
void make_hnsw_index(PostgresDatabase& database, const std::string& table, std::string_view outputs_suffix);

}  // namespace offramp
