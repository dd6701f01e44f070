#include "consumer/sinks/postgres_table.hpp"

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "consumer/sinks/atomic_file.hpp"
#include "consumer/sinks/cannot_write.hpp"
#include "consumer/sinks/output_name.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

// Who makes a table or the extension waits for others who do.
constexpr const char* kLockMaking = "SELECT pg_advisory_lock(1330005586)";
constexpr const char* kUnlockMaking = "SELECT pg_advisory_unlock(1330005586)";
// Of consumers that were killed, which the server has not noticed yet.
constexpr const char* kPatience = "SET lock_timeout = '30s'";

std::string mark_of(const PostgresLayout& layout, const std::string& folder) {
    return folder + "/" + std::string(kReservedPrefix) + "made-" + std::string(layout.contents) + "-postgres";
}

// What the mark says; nothing when there is none.
std::optional<std::string> marked(const std::string& mark) {
    std::ifstream file(mark);
    if (!file) return std::nullopt;
    std::string number;
    std::getline(file, number);
    return number;
}

std::string named(const std::string& table, const PostgresDatabase& database) { return "table '" + table + "' of " + database.name(); }

// "offramp embeddings 1 5f0c...": what our tables' comments begin with.
std::string beginning_of_comment(const PostgresLayout& layout) { return "offramp " + std::string(layout.contents) + " "; }

struct Found {
    bool there = false;
    bool ours = false;
    std::string version;
    std::string number;
};

Found find(PostgresDatabase& database, const PostgresLayout& layout, const std::string& relation) {
    const auto rows = database.rows("SELECT to_regclass($1), obj_description(to_regclass($1)::oid, 'pg_class')", {relation});
    const std::string comment = rows.at(0).at(1).value_or("");
    const std::string beginning = beginning_of_comment(layout);
    Found found{.there = rows.at(0).at(0).has_value(), .ours = comment.starts_with(beginning)};
    if (!found.ours) return found;
    found.version = comment.substr(beginning.size(), comment.find(' ', beginning.size()) - beginning.size());
    found.number = comment.substr(comment.rfind(' ') + 1);
    return found;
}

// The tables, by what stands behind NAME.
std::vector<std::string> suffixes_of(const PostgresLayout& layout) {
    if (layout.second.suffix.empty()) return {""};
    return {"", std::string(layout.second.suffix)};
}

// All tables are ours, or are not there. The one with the rows.
Found find_ours(PostgresDatabase& database, const PostgresLayout& layout, const std::string& table) {
    Found rows;
    for (const std::string& suffix : suffixes_of(layout)) {
        const Found found = find(database, layout, table_in_sql(table, suffix));
        if (found.there && !found.ours)
            throw ConfigError(named(table + suffix, database) + " was made by another program, or holds other results", "Rename it, or give another --sink-table");
        if (suffix.empty()) rows = found;
    }
    return rows;
}

[[noreturn]] void fail_taken_away(const std::string& table, const PostgresDatabase& database, const std::string& mark) {
    throw Error(ExitCode::SinkUnavailable, named(table, database) + " is gone, and with it results that count as done",
                "Bring it back; or start over without --resume; or remove " + mark + " to go on without them");
}

void require_this_one(const Found& found, const PostgresLayout& layout, const std::string& table, const PostgresDatabase& database, const std::string& mark) {
    if (found.version != layout.version)
        throw ConfigError(named(table, database) + " is of version " + found.version + "; this program knows " + std::string(layout.version),
                          "Rename it, or give another --sink-table");
    const auto number = marked(mark);
    if (number && *number != found.number)
        throw ConfigError(named(table, database) + " was begun anew by another run, and this one's results in it are gone",
                          "Give each run a --sink-table of its own; start over without --resume");
}

// One lock for one table, however it is named.
std::string lock_of(PostgresDatabase& database, const PostgresLayout& layout, const std::string& table) {
    return beginning_of_comment(layout) + with_schema(database, table);
}

// Exclusive: only when no consumer of any run is connected for this table.
void lock_alone(PostgresDatabase& database, const PostgresLayout& layout, const std::string& table) {
    database.run(kPatience);
    try {
        database.run("SELECT pg_advisory_lock(hashtextextended($1, 0))", {lock_of(database, layout, table)});
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

void make_pgvector(PostgresDatabase& database) {
    if (!database.rows("SELECT 1 FROM pg_extension WHERE extname = 'vector'").empty()) return;
    try {
        database.run("CREATE EXTENSION IF NOT EXISTS vector");
    } catch (const PostgresError& error) {
        if (error.exit_code() == ExitCode::SinkUnavailable) throw;
        throw ConfigError(database.name() + " has no pgvector, and it cannot be made: " + error.what(),
                          "Install pgvector on the server (Debian: postgresql-NN-pgvector), and have a superuser run: CREATE EXTENSION vector");
    }
}

}  // namespace

std::string table_in_sql(const std::string& table, std::string_view suffix) {
    const std::size_t dot = table.find('.');
    const std::string name = table.substr(dot + 1) + std::string(suffix);   // from the beginning where there is no '.'
    return dot == std::string::npos ? quoted_identifier(name) : quoted_identifier(table.substr(0, dot)) + "." + quoted_identifier(name);
}

std::string with_schema(PostgresDatabase& database, const std::string& table) {
    if (table.find('.') != std::string::npos) return table;
    return database.rows("SELECT current_schema()").at(0).at(0).value_or("") + "." + table;
}

PostgresTable::PostgresTable(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target, Durability durability)
    : layout_(layout),
      mark_(mark_of(layout, folder)),
      table_(target.table),
      rows_(table_in_sql(table_)),
      second_(layout.second.suffix.empty() ? std::string() : table_in_sql(table_, layout.second.suffix)),
      durability_(durability),
      database_(target.sink, target.patience) {
    // A commit that the server may still forget would be of rows that count as done.
    database_.run("SELECT set_config('synchronous_commit', 'local', false) WHERE current_setting('synchronous_commit') = 'off'");
    database_.run("SELECT pg_advisory_lock_shared(hashtextextended($1, 0))", {lock_of(database_, layout_, table_)});
    if (const Found found = find_ours(database_, layout_, table_); found.there)
        require_this_one(found, layout_, table_, database_, mark_);
    else if (marked(mark_))
        fail_taken_away(table_, database_, mark_);
}

std::string PostgresTable::name() const { return named(table_, database_); }

void PostgresTable::make(const PostgresColumns& columns) {
    if (find_ours(database_, layout_, table_).there) return;
    if (marked(mark_)) fail_taken_away(table_, database_, mark_);
    if (layout_.needs_pgvector) make_pgvector(database_);
    const std::string comment = " IS '" + beginning_of_comment(layout_) + std::string(layout_.version) + " " + new_number() + "'";
    if (!second_.empty()) {
        database_.run("CREATE TABLE " + second_ + " (" + std::string(layout_.second.columns) + ")");
        database_.run("COMMENT ON TABLE " + second_ + comment);
    }
    database_.run("CREATE TABLE " + rows_ + " (" + columns.rows + ")");
    database_.run("COMMENT ON TABLE " + rows_ + comment);
    if (!layout_.indexed.empty()) database_.run("CREATE INDEX ON " + rows_ + " (" + std::string(layout_.indexed) + ")");
}

void PostgresTable::open(const PostgresColumns& columns) {
    if (!find_ours(database_, layout_, table_).there) {
        // Before the transaction, which would not see what was made while it waited. A consumer that fails here ends, and its lock with it.
        database_.run(kLockMaking);
        database_.transact([&] { make(columns); });
        database_.run(kUnlockMaking);
    }
    const Found found = find_ours(database_, layout_, table_);
    if (!found.there) fail_taken_away(table_, database_, mark_);
    require_this_one(found, layout_, table_, database_, mark_);
    if (!marked(mark_)) write_atomically(mark_, std::as_bytes(std::span(found.number)), durability_);
    database_.run("CREATE TEMPORARY TABLE offramp_rows (" + columns.copied + ") ON COMMIT DELETE ROWS");
    opened_ = true;
}

void PostgresTable::transact(const PostgresColumns& columns, const std::function<void()>& progress, const std::function<void(PostgresDatabase&)>& work) {
    const PostgresDatabase::Telling telling(database_, progress);
    try {
        if (!opened_) open(columns);
        database_.transact([&] { work(database_); });
    } catch (const PostgresError& error) {
        if (error.sqlstate() == "42P01" && !find_ours(database_, layout_, table_).there) fail_taken_away(table_, database_, mark_);
        throw;
    }
}

void finish_postgres_table(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target,
                           const std::function<void(PostgresDatabase&)>& complete) {
    const std::string mark = mark_of(layout, folder);
    if (!marked(mark)) return;   // no rows
    PostgresDatabase database(target.sink);
    const Found found = find_ours(database, layout, target.table);
    if (!found.there) fail_taken_away(target.table, database, mark);
    require_this_one(found, layout, target.table, database, mark);
    complete(database);
}

void require_replaceable_postgres_table(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target, bool resume) {
    PostgresDatabase database(target.sink);   // waits for the lock alone, as long as that may take
    lock_alone(database, layout, target.table);
    if (find_ours(database, layout, target.table).there && resume && !marked(mark_of(layout, folder)))
        throw ConfigError("--resume, but nothing in --output " + folder + " continues " + named(target.table, database) + ", which holds a run's results",
                          "Give that run's --output; or leave out --resume to replace the table; or give another --sink-table");
}

// The mark goes last: the table that it stands for is gone by then.
void remove_postgres_table(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target) {
    PostgresDatabase database(target.sink);   // waits for the lock alone, as long as that may take
    lock_alone(database, layout, target.table);
    find_ours(database, layout, target.table);
    std::string tables;
    for (const std::string& suffix : suffixes_of(layout)) tables += (tables.empty() ? "" : ", ") + table_in_sql(target.table, suffix);
    database.run("DROP TABLE IF EXISTS " + tables);
    const std::string mark = mark_of(layout, folder);
    std::error_code failure;
    fs::remove(mark, failure);
    if (failure) throw cannot_write("removing " + mark, failure.value());
}

}  // namespace offramp
