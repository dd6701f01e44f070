#include "consumer/sinks/postgres/postgres_table.hpp"

#include <random>
#include <span>
#include <sstream>

#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/postgres/postgres_ownership.hpp"

namespace offramp {
namespace {

// Serializes the processes that create a table or the extension.
constexpr const char* kLockMaking = "SELECT pg_advisory_lock(1330005586)";
constexpr const char* kUnlockMaking = "SELECT pg_advisory_unlock(1330005586)";

std::string new_number() {
    std::random_device random;
    std::ostringstream number;
    number << std::hex;
    for (int i = 0; i < 4; ++i) number << random() << (i < 3 ? "-" : "");
    return number.str();
}

// `columns`: names separated by ", ".
bool is_among(const std::string& columns, const std::string& column) {
    return (", " + columns + ", ").find(", " + column + ", ") != std::string::npos;
}

void make_pgvector(PostgresDatabase& database) {
    if (!database.rows("SELECT 1 FROM pg_extension WHERE extname = 'vector'").empty()) return;
    try {
        database.run("CREATE EXTENSION IF NOT EXISTS vector");
    } catch (const PostgresError& error) {
        if (error.kind() == ErrorKind::SinkUnavailable) throw;
        throw ConfigError(database.name() + " lacks pgvector, and it cannot be created: " + error.what(),
                          "Install pgvector on the server (Debian: postgresql-NN-pgvector), and have a superuser run: "
                          "CREATE EXTENSION vector");
    }
}

}  // namespace

PostgresTable::PostgresTable(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target,
                             Durability durability)
    : layout_(layout),
      mark_(postgres_mark_of(layout, folder)),
      target_(target),
      table_(target.table),
      durability_(durability),
      database_(target.sink, target.patience) {
    // Commits must be durable: their rows count as done.
    database_.run(
        "SELECT set_config('synchronous_commit', 'local', false) WHERE current_setting('synchronous_commit') = 'off'");
    database_.run("SELECT pg_advisory_lock_shared(hashtextextended($1, 0))", {lock_of(database_, layout_, table_)});
    at_ = where_rows_are(database_, layout_, mark_, target);
    rows_ = table_in_sql(at_);
    if (!layout.second.suffix.empty()) second_ = table_in_sql(at_, layout.second.suffix);
    if (const FoundTable found = find_offramp_table(database_, layout_, at_); found.there)
        require_own(found);
    else if (read_postgres_mark(mark_))
        fail_table_removed(at_, database_, mark_);
}

void PostgresTable::require_own(const FoundTable& found) const {
    require_marked(found, layout_, at_, database_, mark_);
    require_of_job(found, target_, at_, database_, mark_);
}

std::string PostgresTable::name() const { return named(at_, database_); }

void PostgresTable::make(const PostgresColumns& columns) {
    if (find_offramp_table(database_, layout_, at_).there) return;
    if (read_postgres_mark(mark_)) fail_table_removed(at_, database_, mark_);
    if (layout_.needs_pgvector) make_pgvector(database_);
    const std::string number = target_.job.empty() ? new_number() : number_of_job(target_.job, new_number());
    const std::string comment = " IS '" + comment_of(layout_, {.number = number, .further = columns.further}) + "'";
    if (!second_.empty()) {
        database_.run("CREATE TABLE " + second_ + " (" + std::string(layout_.second.columns) + ")");
        database_.run("COMMENT ON TABLE " + second_ + comment);
    }
    database_.run("CREATE TABLE " + rows_ + " (" + columns.rows + ")");
    database_.run("COMMENT ON TABLE " + rows_ + comment);
    if (!layout_.indexed.empty()) database_.run("CREATE INDEX ON " + rows_ + " (" + std::string(layout_.indexed) + ")");
}

void PostgresTable::open(const PostgresColumns& columns) {
    if (!find_offramp_table(database_, layout_, at_).there) {
        // Take the lock before the transaction, which would not see tables created while it waited. If a consumer fails
        // here, it ends, and so does its lock.
        database_.run(kLockMaking);
        database_.transact([&] { make(columns); });
        database_.run(kUnlockMaking);
    }
    const FoundTable found = find_offramp_table(database_, layout_, at_);
    if (!found.there) fail_table_removed(at_, database_, mark_);
    require_own(found);
    if (!read_postgres_mark(mark_)) {
        const std::string mark = found.number + "\n" + with_schema(database_, at_) + "\n" + database_.name() + "\n";
        write_atomically(mark_, std::as_bytes(std::span(mark)), durability_);
    }
    database_.run("CREATE TEMPORARY TABLE offramp_rows (" + columns.copied + ") ON COMMIT DELETE ROWS");
    opened_ = true;
}

void PostgresTable::transact(const PostgresColumns& columns, const std::function<void()>& progress,
                             const std::function<void(PostgresDatabase&)>& work) {
    const PostgresDatabase::ProgressScope progress_scope(database_, progress);
    try {
        if (!opened_) open(columns);
        database_.transact([&] { work(database_); });
    } catch (const PostgresError& error) {
        if (error.sqlstate() == "42P01" && !find_offramp_table(database_, layout_, at_).there)
            fail_table_removed(at_, database_, mark_);
        throw;
    }
}

bool PostgresTable::was_made_with(const std::string& column) {
    return is_among(find_offramp_table(database_, layout_, at_).further, column);
}

// A column that others added under this name is theirs.
void PostgresTable::require_columns(const std::vector<std::string>& columns) {
    const std::string further = find_offramp_table(database_, layout_, at_).further;
    for (const std::string& column : columns)
        if (!is_among(further, column) ||
            database_
                .rows("SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = $2 AND NOT "
                      "attisdropped",
                      {rows_, column})
                .empty())
            throw ConfigError(
                name() + " has no column '" + column + "', which this run fills: it was created for another input",
                "Give --overwrite instead of --resume; shards of a job need another job; or give "
                "another --sink-table");
}

void make_hnsw_index(PostgresDatabase& database, const std::string& table, std::string_view outputs_suffix) {
    const std::string name = table.substr(table.find('.') + 1) + "_hnsw";  // without a '.', from the beginning
    // Builds for other tables do not wait for this lock.
    const std::string lock = "offramp index of " + with_schema(database, table);
    const auto make = [&](const std::string& index, const std::string& of) {
        database.run("SELECT pg_advisory_lock(hashtextextended($1, 0))", {lock});
        database.run("CREATE INDEX IF NOT EXISTS " + quoted_identifier(index) + " ON " + table_in_sql(table) +
                     " USING hnsw " + of);
        database.run("SELECT pg_advisory_unlock(hashtextextended($1, 0))", {lock});
    };
    const std::string type = database
                                 .rows(
                                     "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = "
                                     "to_regclass($1) AND attname = 'vector'",
                                     {table_in_sql(table)})
                                 .at(0)
                                 .at(0)
                                 .value_or("");
    const std::string kind = type.find("halfvec") == std::string::npos ? "vector" : "halfvec";
    if (type.ends_with(')')) return make(name, "(vector " + kind + "_cosine_ops)");
    int number = 0;
    for (const PostgresDatabase::Row& row : database.rows("SELECT dimensions, quote_literal(output) FROM " +
                                                          table_in_sql(table, outputs_suffix) + " ORDER BY output"))
        make(name + "_" + std::to_string(++number), "((vector::" + kind + "(" + row.at(0).value_or("") + ")) " + kind +
                                                        "_cosine_ops) WHERE output = " + row.at(1).value_or(""));
}

}  // namespace offramp
