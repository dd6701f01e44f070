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

constexpr std::string_view kEnded = " ended ";
constexpr std::size_t kLongestName = 63;   // of PostgreSQL's, in bytes

std::string mark_of(const PostgresLayout& layout, const std::string& folder) {
    return folder + "/" + std::string(kReservedPrefix) + "made-" + std::string(layout.contents) + "-postgres";
}

struct Mark {
    std::string number;
    std::string table;   // SCHEMA.NAME, where it belongs
};

// What the mark says; nothing when there is none.
std::optional<Mark> marked(const std::string& path) {
    std::ifstream file(path);
    if (!file) return std::nullopt;
    Mark mark;
    std::getline(file, mark.number);
    std::getline(file, mark.table);
    return mark;
}

std::string named(const std::string& table, const PostgresDatabase& database) { return "table '" + table + "' of " + database.name(); }

// "offramp embeddings 1 5f0c...", or "offramp embeddings 1 ended 5f0c...": what our tables' comments begin with.
std::string beginning_of_comment(const PostgresLayout& layout) { return "offramp " + std::string(layout.contents) + " "; }

struct Found {
    bool there = false;
    bool ours = false;
    bool ended = false;
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
    found.ended = comment.starts_with(beginning + found.version + std::string(kEnded));
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
                "Bring it back; or give --start-over instead of --resume; or remove " + mark + " to go on without them");
}

void require_this_one(const Found& found, const PostgresLayout& layout, const std::string& table, const PostgresDatabase& database, const std::string& mark) {
    if (found.version != layout.version)
        throw ConfigError(named(table, database) + " is of version " + found.version + "; this program knows " + std::string(layout.version),
                          "Rename it, or give another --sink-table");
    const auto made = marked(mark);
    if (made && made->number != found.number)
        throw ConfigError(named(table, database) + " was begun anew by another run, and this one's results in it are gone",
                          "Give each run a --sink-table of its own; --start-over instead of --resume makes all anew");
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
      at_(target.next_table.empty() ? target.table : target.next_table),
      rows_(table_in_sql(at_)),
      second_(layout.second.suffix.empty() ? std::string() : table_in_sql(at_, layout.second.suffix)),
      durability_(durability),
      database_(target.sink, target.patience) {
    // A commit that the server may still forget would be of rows that count as done.
    database_.run("SELECT set_config('synchronous_commit', 'local', false) WHERE current_setting('synchronous_commit') = 'off'");
    database_.run("SELECT pg_advisory_lock_shared(hashtextextended($1, 0))", {lock_of(database_, layout_, table_)});
    if (const Found found = find_ours(database_, layout_, at_); found.there)
        require_this_one(found, layout_, at_, database_, mark_);
    else if (marked(mark_))
        fail_taken_away(at_, database_, mark_);
}

std::string PostgresTable::name() const { return named(at_, database_); }

void PostgresTable::make(const PostgresColumns& columns) {
    if (find_ours(database_, layout_, at_).there) return;
    if (marked(mark_)) fail_taken_away(at_, database_, mark_);
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
    if (!find_ours(database_, layout_, at_).there) {
        // Before the transaction, which would not see what was made while it waited. A consumer that fails here ends, and its lock with it.
        database_.run(kLockMaking);
        database_.transact([&] { make(columns); });
        database_.run(kUnlockMaking);
    }
    const Found found = find_ours(database_, layout_, at_);
    if (!found.there) fail_taken_away(at_, database_, mark_);
    require_this_one(found, layout_, at_, database_, mark_);
    if (!marked(mark_)) {
        const std::string mark = found.number + "\n" + with_schema(database_, table_) + "\n";
        write_atomically(mark_, std::as_bytes(std::span(mark)), durability_);
    }
    database_.run("CREATE TEMPORARY TABLE offramp_rows (" + columns.copied + ") ON COMMIT DELETE ROWS");
    opened_ = true;
}

void PostgresTable::transact(const PostgresColumns& columns, const std::function<void()>& progress, const std::function<void(PostgresDatabase&)>& work) {
    const PostgresDatabase::Telling telling(database_, progress);
    try {
        if (!opened_) open(columns);
        database_.transact([&] { work(database_); });
    } catch (const PostgresError& error) {
        if (error.sqlstate() == "42P01" && !find_ours(database_, layout_, at_).there) fail_taken_away(at_, database_, mark_);
        throw;
    }
}

namespace {

// The table of the run whose mark this is.
Found found_of(PostgresDatabase& database, const PostgresLayout& layout, const std::string& mark, const std::string& table) {
    const Found found = find_ours(database, layout, table);
    if (!found.there) fail_taken_away(table, database, mark);
    require_this_one(found, layout, table, database, mark);
    return found;
}

// The next table, but for a run whose tables took their place before their mark did.
std::string where_rows_are(PostgresDatabase& database, const PostgresLayout& layout, const std::string& mark, const PostgresTarget& target) {
    if (target.next_table.empty()) return target.table;
    if (find_ours(database, layout, target.next_table).there) return target.next_table;
    const Found in_place = find_ours(database, layout, target.table);
    return in_place.there && in_place.number == marked(mark).value_or(Mark{}).number ? target.table : target.next_table;
}

// In the schema of `table`, SCHEMA.NAME.
std::string beside(const std::string& table, const std::string& next_table) {
    return table.substr(0, table.find('.') + 1) + next_table.substr(next_table.find('.') + 1);   // from the beginning where there is no '.'
}

std::string drop_of(const PostgresLayout& layout, const std::string& table) {
    std::string tables;
    for (const std::string& suffix : suffixes_of(layout)) tables += (tables.empty() ? "" : ", ") + table_in_sql(table, suffix);
    return "DROP TABLE IF EXISTS " + tables;
}

std::string last_part(const std::string& table) { return table.substr(table.find('.') + 1); }

// Indexes, and with them keys, are called after their table.
void rename_indexes(PostgresDatabase& database, const std::string& table, const std::string& from, const std::string& to) {
    for (const PostgresDatabase::Row& row : database.rows("SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE indrelid = to_regclass($1)", {table})) {
        const std::string name = row.at(0).value_or("");
        if (!name.starts_with(from) || to.size() + name.size() - from.size() > kLongestName) continue;
        const std::string schema = table.substr(0, table.find('.') + 1);
        database.run("ALTER INDEX " + schema + quoted_identifier(name) + " RENAME TO " + quoted_identifier(to + name.substr(from.size())));
    }
}

}  // namespace

void finish_postgres_table(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target,
                           const std::function<void(PostgresDatabase&, const std::string&)>& complete) {
    const std::string mark = mark_of(layout, folder);
    if (!marked(mark)) return;   // no rows
    PostgresDatabase database(target.sink);
    const std::string table = where_rows_are(database, layout, mark, target);
    found_of(database, layout, mark, table);
    complete(database, table);
}

void mark_postgres_table_ended(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target) {
    const std::string mark = mark_of(layout, folder);
    if (!marked(mark)) return;
    PostgresDatabase database(target.sink);
    const std::string table = where_rows_are(database, layout, mark, target);
    const Found found = found_of(database, layout, mark, table);
    database.run("COMMENT ON TABLE " + table_in_sql(table) + " IS '" + beginning_of_comment(layout) + std::string(layout.version) + std::string(kEnded) +
                 found.number + "'");
}

PostgresTableState look_at_postgres_table(const PostgresLayout& layout, const PostgresTarget& target) {
    PostgresDatabase database(target.sink);   // waits for the lock alone, as long as that may take
    lock_alone(database, layout, target.table);
    const Found found = find_ours(database, layout, target.table);
    if (!found.there) return PostgresTableState::Absent;
    return found.ended ? PostgresTableState::Ended : PostgresTableState::Unfinished;
}

bool has_postgres_mark(const PostgresLayout& layout, const std::string& folder) { return marked(mark_of(layout, folder)).has_value(); }

void require_continued_postgres_table(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target) {
    PostgresDatabase database(target.sink);
    if (!find_ours(database, layout, target.table).there || has_postgres_mark(layout, folder)) return;
    throw ConfigError("--resume, but nothing in --output " + folder + " continues " + named(target.table, database) + ", which holds a run's results",
                      "Give that run's --output; or --start-over instead of --resume to replace the table; or another --sink-table");
}

std::string postgres_table_name(const PostgresTarget& target) { return named(target.table, PostgresDatabase(target.sink)); }

void put_postgres_table_in_place(const PostgresLayout& layout, const std::string& next, const std::string& folder, const PostgresTarget& target) {
    const std::string mark = mark_of(layout, next);
    const auto made = marked(mark);
    if (!made) return;
    const std::string table = made->table.empty() ? target.table : made->table;
    PostgresDatabase database(target.sink);
    lock_alone(database, layout, table);
    const std::string from = beside(table, target.next_table);
    const Found former = find_ours(database, layout, table);
    if (find_ours(database, layout, from).there) {
        found_of(database, layout, mark, from);
        database.transact([&] {
            database.run(drop_of(layout, table));
            for (const std::string& suffix : suffixes_of(layout)) {
                database.run("ALTER TABLE " + table_in_sql(from, suffix) + " RENAME TO " + quoted_identifier(last_part(table) + suffix));
                rename_indexes(database, table_in_sql(table, suffix), last_part(from), last_part(table));
            }
        });
    } else if (!former.there || former.number != made->number) {
        fail_taken_away(from, database, mark);
    }
    // Killed before this, the table in its place is known by its number.
    replace_file(mark, mark_of(layout, folder));
}

void remove_next_postgres_table(const PostgresLayout& layout, const std::string& next, const PostgresTarget& target) {
    const std::string mark = mark_of(layout, next);
    const auto made = marked(mark);
    if (!made) return;
    PostgresDatabase database(target.sink);
    const std::string table = beside(made->table, target.next_table);
    if (const Found found = find_ours(database, layout, table); found.there && found.number == made->number) database.run(drop_of(layout, table));
    std::error_code failure;
    fs::remove(mark, failure);
    if (failure) throw cannot_write("removing " + mark, failure.value());
}

}  // namespace offramp
