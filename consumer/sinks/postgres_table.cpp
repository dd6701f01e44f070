#include "consumer/sinks/postgres_table.hpp"

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "consumer/sinks/atomic_file.hpp"
#include "consumer/sinks/cannot_write.hpp"
#include "consumer/sinks/output_name.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOurs = "offramp embeddings ";
constexpr std::string_view kVersion = "1";  // of our tables; another number is another layout
// Who makes a table or the extension waits for others who do.
constexpr const char* kLockMaking = "SELECT pg_advisory_lock(1330005586)";
constexpr const char* kUnlockMaking = "SELECT pg_advisory_unlock(1330005586)";
// Of consumers that were killed, which the server has not noticed yet.
constexpr const char* kPatience = "SET lock_timeout = '30s'";
constexpr const char* kOutputsSuffix = "_outputs";

// SCHEMA.NAME, each part quoted.
std::string in_sql(const std::string& table, const std::string& suffix = {}) {
    const std::size_t dot = table.find('.');
    if (dot == std::string::npos) return quoted_identifier(table + suffix);
    return quoted_identifier(table.substr(0, dot)) + "." + quoted_identifier(table.substr(dot + 1) + suffix);
}

std::string mark_of(const std::string& folder) { return folder + "/" + std::string(kReservedPrefix) + "made-embeddings-postgres"; }

// What the mark says; nothing when there is none.
std::optional<std::string> marked(const std::string& mark) {
    std::ifstream file(mark);
    if (!file) return std::nullopt;
    std::string number;
    std::getline(file, number);
    return number;
}

std::string named(const std::string& table, const PostgresDatabase& database) { return "table '" + table + "' of " + database.name(); }

struct Found {
    bool there = false;
    std::string comment;

    bool ours() const { return comment.starts_with(kOurs); }
    std::string version() const { return comment.substr(kOurs.size(), comment.find(' ', kOurs.size()) - kOurs.size()); }
    std::string number() const { return comment.substr(comment.rfind(' ') + 1); }
};

Found find(PostgresDatabase& database, const std::string& relation) {
    const auto rows = database.rows("SELECT to_regclass($1), obj_description(to_regclass($1)::oid, 'pg_class')", {relation});
    return {.there = rows.at(0).at(0).has_value(), .comment = rows.at(0).at(1).value_or("")};
}

[[noreturn]] void fail_of_another(const std::string& table, const PostgresDatabase& database) {
    throw ConfigError(named(table, database) + " was made by another program", "Rename it, or give another --sink-table");
}

// Both tables are ours, or are not there.
Found find_ours(PostgresDatabase& database, const std::string& table) {
    const Found rows = find(database, in_sql(table));
    const Found outputs = find(database, in_sql(table, kOutputsSuffix));
    if (rows.there && !rows.ours()) fail_of_another(table, database);
    if (outputs.there && !outputs.ours()) fail_of_another(table + kOutputsSuffix, database);
    return rows;
}

[[noreturn]] void fail_taken_away(const std::string& table, const PostgresDatabase& database, const std::string& mark) {
    throw Error(ExitCode::SinkUnavailable, named(table, database) + " is gone, and with it results that count as done",
                "Bring it back; or start over without --resume; or remove " + mark + " to go on without them");
}

void require_this_one(const Found& found, const std::string& table, const PostgresDatabase& database, const std::string& mark) {
    if (found.version() != kVersion)
        throw ConfigError(named(table, database) + " is of version " + found.version() + "; this program knows " + std::string(kVersion),
                          "Rename it, or give another --sink-table");
    const auto number = marked(mark);
    if (number && *number != found.number())
        throw ConfigError(named(table, database) + " was begun anew by another run, and this one's results in it are gone",
                          "Give each run a --sink-table of its own; start over without --resume");
}

// One lock for one table, however it is named.
std::string lock_of(PostgresDatabase& database, const std::string& table) {
    const std::string lock = "offramp embeddings ";
    if (table.find('.') != std::string::npos) return lock + table;
    return lock + database.rows("SELECT current_schema()").at(0).at(0).value_or("") + "." + table;
}

// Exclusive: only when no consumer of any run is connected for this table.
void lock_alone(PostgresDatabase& database, const std::string& table) {
    database.run(kPatience);
    try {
        database.run("SELECT pg_advisory_lock(hashtextextended($1, 0))", {lock_of(database, table)});
    } catch (const PostgresError& error) {
        if (error.sqlstate() != "55P03") throw;
        throw Error(ExitCode::RunInUse, "another run writes to " + named(table, database), "Wait for its end, or give this run another --sink-table");
    }
}

std::string new_number() {
    std::random_device random;
    std::ostringstream number;
    number << std::hex;
    for (int i = 0; i < 4; ++i) number << random() << (i < 3 ? "-" : "");
    return number.str();
}

void make_extension(PostgresDatabase& database) {
    if (!database.rows("SELECT 1 FROM pg_extension WHERE extname = 'vector'").empty()) return;
    try {
        database.run("CREATE EXTENSION IF NOT EXISTS vector");
    } catch (const PostgresError& error) {
        if (error.exit_code() == ExitCode::SinkUnavailable) throw;
        throw ConfigError(database.name() + " has no pgvector, and it cannot be made: " + error.what(),
                          "Install pgvector on the server (Debian: postgresql-NN-pgvector), and have a superuser run: CREATE EXTENSION vector");
    }
}

// One whose maker was killed, and which the server goes on with, is waited for.
void make_hnsw(PostgresDatabase& database, const std::string& table) {
    const std::string name = table.substr(table.find('.') + 1) + "_hnsw";   // from the beginning where there is no '.'
    const std::string lock = "index of " + lock_of(database, table);    // the others' tables are not kept waiting
    const auto make = [&](const std::string& index, const std::string& of) {
        database.run("SELECT pg_advisory_lock(hashtextextended($1, 0))", {lock});
        database.run("CREATE INDEX IF NOT EXISTS " + quoted_identifier(index) + " ON " + in_sql(table) + " USING hnsw " + of);
        database.run("SELECT pg_advisory_unlock(hashtextextended($1, 0))", {lock});
    };
    const std::string type = database
                                 .rows("SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = to_regclass($1) AND attname = 'vector'",
                                       {in_sql(table)})
                                 .at(0).at(0).value_or("");
    const std::string kind = type.find("halfvec") == std::string::npos ? "vector" : "halfvec";
    if (type.ends_with(')')) return make(name, "(vector " + kind + "_cosine_ops)");
    int number = 0;
    for (const PostgresDatabase::Row& row : database.rows("SELECT dimensions, quote_literal(output) FROM " + in_sql(table, kOutputsSuffix) + " ORDER BY output"))
        make(name + "_" + std::to_string(++number), "((vector::" + kind + "(" + row.at(0).value_or("") + ")) " + kind + "_cosine_ops) WHERE output = " +
                                                        row.at(1).value_or(""));
}

}  // namespace

PostgresTable::PostgresTable(const std::string& folder, const std::string& sink, std::string table, Durability durability)
    : mark_(mark_of(folder)),
      table_(std::move(table)),
      rows_(in_sql(table_)),
      outputs_(in_sql(table_, kOutputsSuffix)),
      durability_(durability),
      database_(sink) {
    // A commit that the server may still forget would be of rows that count as done.
    database_.run("SELECT set_config('synchronous_commit', 'local', false) WHERE current_setting('synchronous_commit') = 'off'");
    database_.run("SELECT pg_advisory_lock_shared(hashtextextended($1, 0))", {lock_of(database_, table_)});
    if (const Found found = find_ours(database_, table_); found.there)
        require_this_one(found, table_, database_, mark_);
    else if (marked(mark_))
        fail_taken_away(table_, database_, mark_);
}

std::string PostgresTable::name() const { return named(table_, database_); }

void PostgresTable::make(const std::string& vector_type) {
    if (find_ours(database_, table_).there) return;
    if (marked(mark_)) fail_taken_away(table_, database_, mark_);
    make_extension(database_);
    const std::string comment = " IS '" + std::string(kOurs) + std::string(kVersion) + " " + new_number() + "'";
    database_.run("CREATE TABLE " + outputs_ +
                  " (output text PRIMARY KEY, dimensions integer NOT NULL, dtype text NOT NULL, normalized boolean NOT NULL, model text NOT NULL)");
    database_.run("COMMENT ON TABLE " + outputs_ + comment);
    database_.run("CREATE TABLE " + rows_ + " (key text NOT NULL, output text NOT NULL, item bigint NOT NULL, vector " + vector_type +
                  ", PRIMARY KEY (key, output))");
    database_.run("COMMENT ON TABLE " + rows_ + comment);
}

void PostgresTable::open(const std::string& vector_type) {
    if (!find_ours(database_, table_).there) {
        // Before the transaction, which would not see what was made while it waited. A consumer that fails here ends, and its lock with it.
        database_.run(kLockMaking);
        database_.transact([&] { make(vector_type); });
        database_.run(kUnlockMaking);
    }
    const Found found = find_ours(database_, table_);
    if (!found.there) fail_taken_away(table_, database_, mark_);
    require_this_one(found, table_, database_, mark_);
    const std::string number = found.number();
    if (!marked(mark_)) write_atomically(mark_, std::as_bytes(std::span(number)), durability_);
    database_.run("CREATE TEMPORARY TABLE offramp_rows (key text, output text, item bigint, vector " + vector_type + ") ON COMMIT DELETE ROWS");
    opened_ = true;
}

void PostgresTable::transact(const std::string& vector_type, const std::function<void(PostgresDatabase&)>& work) {
    try {
        if (!opened_) open(vector_type);
        database_.transact([&] { work(database_); });
    } catch (const PostgresError& error) {
        if (error.sqlstate() == "42P01" && !find_ours(database_, table_).there) fail_taken_away(table_, database_, mark_);
        throw;
    }
}

void finish_postgres_table(const std::string& folder, const std::string& sink, const std::string& table, const std::string& index) {
    const std::string mark = mark_of(folder);
    if (!marked(mark)) return;   // no rows
    PostgresDatabase database(sink);
    const Found found = find_ours(database, table);
    if (!found.there) fail_taken_away(table, database, mark);
    require_this_one(found, table, database, mark);
    if (index == "hnsw") make_hnsw(database, table);
}

void require_replaceable_postgres_table(const std::string& folder, const std::string& sink, const std::string& table, bool resume) {
    PostgresDatabase database(sink);
    lock_alone(database, table);
    if (find_ours(database, table).there && resume && !marked(mark_of(folder)))
        throw ConfigError("--resume, but nothing in --output " + folder + " continues " + named(table, database) + ", which holds a run's results",
                          "Give that run's --output; or leave out --resume to replace the table; or give another --sink-table");
}

// The mark goes last: the table that it stands for is gone by then.
void remove_postgres_table(const std::string& folder, const std::string& sink, const std::string& table) {
    PostgresDatabase database(sink);
    lock_alone(database, table);
    find_ours(database, table);
    database.run("DROP TABLE IF EXISTS " + in_sql(table) + ", " + in_sql(table, kOutputsSuffix));
    const std::string mark = mark_of(folder);
    std::error_code failure;
    fs::remove(mark, failure);
    if (failure) throw cannot_write("removing " + mark, failure.value());
}

}  // namespace offramp
