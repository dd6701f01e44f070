#pragma once

#include <functional>
#include <optional>
#include <string>

#include "consumer/sinks/durability.hpp"
#include "consumer/sinks/postgres_database.hpp"

namespace offramp {

// The vectors of a run in a PostgreSQL with pgvector, which all its consumers write to: NAME (key, output, item, vector) and
// NAME_outputs (output, dimensions, dtype, normalized, model); made with the first rows. That it is ours, the layout's version and a number of its own stand in the
// table's comment: "offramp embeddings 1 5f0c...".
//
// In the output folder lies a hidden mark, ".offramp-made-embeddings-postgres", with that number: when the mark is there and the table is
// not, somebody took it away with results that count as done, and another must not be begun in its place.
//
// Owns the connection, which holds a shared advisory lock on the table's name: nobody starts over beneath a consumer. Thread, blocks: as
// PostgresDatabase. Errors: those of PostgresDatabase; Error with SinkUnavailable when the table was taken away; ConfigError when it is
// not one of ours, when another run has begun it anew, and without pgvector.
class PostgresTable {
  public:
    // `table`: NAME or SCHEMA.NAME. Connects, and looks at a table that is there.
    PostgresTable(const std::string& folder, const std::string& sink, std::string table, Durability durability);

    // Runs `work` in a transaction (PostgresDatabase::transact), in which the temporary table `offramp_rows` (key, output, item, vector) is there and empty.
    // `vector_type`, of a table that is made now: pgvector's "vector(384)" or "halfvec(384)", without a number for vectors of several lengths.
    void transact(const std::string& vector_type, const std::function<void(PostgresDatabase& database)>& work);

    // "table 'embeddings' of PostgreSQL database ...", for errors.
    std::string name() const;
    // As they stand in SQL.
    const std::string& rows() const { return rows_; }
    const std::string& outputs() const { return outputs_; }

  private:
    void open(const std::string& vector_type);
    void make(const std::string& vector_type);

    std::string mark_, table_, rows_, outputs_;
    Durability durability_;
    PostgresDatabase database_;
    bool opened_ = false;
};

// When nobody writes any more: with `index` "hnsw" makes NAME_hnsw, an index by cosine of vectors of one length; of several lengths one each output,
// NAME_hnsw_1 and so on. May be killed and called again. A run without a table has nothing to finish. Errors: those of PostgresTable.
void finish_postgres_table(const std::string& folder, const std::string& sink, const std::string& table, const std::string& index);
// What would lie in the way of a new table: nothing, or one of ours; with `resume` one that this folder's run has made. Changes nothing. Errors: those of
// PostgresTable; Error with RunInUse when a consumer of another run is connected for it.
void require_replaceable_postgres_table(const std::string& folder, const std::string& sink, const std::string& table, bool resume);
// Removes table and mark. Errors: as above, before anything is removed; SystemError with CannotWrite.
void remove_postgres_table(const std::string& folder, const std::string& sink, const std::string& table);

}  // namespace offramp
