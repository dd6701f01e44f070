#include "consumer/sinks/postgres/postgres_replacement.hpp"

#include <filesystem>
#include <system_error>

#include "common/base/error.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/files/write_error.hpp"
#include "consumer/sinks/postgres/replaced_table.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 63;  // of PostgreSQL's, in bytes

// Where the tables of a mark in a folder for what is next were begun; of a mark that does not say it, in the schema of
// the table that they are to replace.
std::string next_of(const PostgresMark& mark, const PostgresTarget& target) {
    if (!mark.begun_at.empty()) return mark.begun_at;
    // from the beginning where there is no '.'
    return mark.table.substr(0, mark.table.find('.') + 1) + target.next_table.substr(target.next_table.find('.') + 1);
}

std::string drop_of(const PostgresLayout& layout, const std::string& table) {
    std::string tables;
    for (const std::string& suffix : suffixes_of(layout))
        tables += (tables.empty() ? "" : ", ") + table_in_sql(table, suffix);
    return "DROP TABLE IF EXISTS " + tables;
}

std::string last_part(const std::string& table) { return table.substr(table.find('.') + 1); }

// Indexes, and with them keys, are called after their table.
void rename_indexes(PostgresDatabase& database, const std::string& table, const std::string& from,
                    const std::string& to) {
    for (const PostgresDatabase::Row& row : database.rows(
             "SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE indrelid = to_regclass($1)",
             {table})) {
        const std::string name = row.at(0).value_or("");
        if (!name.starts_with(from) || to.size() + name.size() - from.size() > kLongestName) continue;
        const std::string schema = table.substr(0, table.find('.') + 1);
        database.run("ALTER INDEX " + schema + quoted_identifier(name) + " RENAME TO " +
                     quoted_identifier(to + name.substr(from.size())));
    }
}

}  // namespace

void finish_postgres_table(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target,
                           const std::function<void(PostgresDatabase&, const std::string&)>& complete) {
    const std::string mark = postgres_mark_of(layout, folder);
    if (!read_postgres_mark(mark)) return;  // no rows
    PostgresDatabase database(target.sink);
    const std::string table = where_rows_are(database, layout, mark, target);
    find_marked(database, layout, mark, table);
    complete(database, table);
}

void mark_postgres_table_ended(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target) {
    const std::string mark = postgres_mark_of(layout, folder);
    if (!read_postgres_mark(mark)) return;
    PostgresDatabase database(target.sink);
    const std::string table = where_rows_are(database, layout, mark, target);
    FoundTable found = find_marked(database, layout, mark, table);
    found.ended = true;
    database.run("COMMENT ON TABLE " + table_in_sql(table) + " IS '" + comment_of(layout, found) + "'");
}

PostgresTableState look_at_postgres_table(const PostgresLayout& layout, const std::string& folder,
                                          const PostgresTarget& target, bool overwrite) {
    PostgresDatabase database(target.sink);  // waits for the lock alone, as long as that may take
    lock_alone(database, layout, target.table);
    const FoundTable found = find_offramp_table(database, layout, target.table);
    if (!overwrite) require_no_job_under_way(found, target.table, database, postgres_mark_of(layout, folder));
    if (!found.there) return PostgresTableState::Absent;
    return found.ended ? PostgresTableState::Ended : PostgresTableState::Unfinished;
}

std::string look_at_replaced_table(const PostgresLayout& layout, const PostgresTarget& target) {
    PostgresDatabase database(target.sink);
    lock_alone(database, layout, target.table);
    require_replaceable_table(database, layout, target.table);
    rehearse_carrying_rights(database, layout, target.table);
    return objects_removed_with(database, layout, target.table);
}

bool has_postgres_mark(const PostgresLayout& layout, const std::string& folder) {
    return read_postgres_mark(postgres_mark_of(layout, folder)).has_value();
}

void require_continued_postgres_table(const PostgresLayout& layout, const std::string& folder,
                                      const PostgresTarget& target) {
    PostgresDatabase database(target.sink);
    if (!find_offramp_table(database, layout, target.table).there || has_postgres_mark(layout, folder)) return;
    throw ConfigError(
        "--resume found nothing in --output " + folder + " that continues " + named(target.table, database) +
            ", which holds a run's results",
        "Give that run's --output; or --overwrite instead of --resume to replace the table; or another --sink-table");
}

std::string postgres_table_name(const PostgresTarget& target) {
    return named(target.table, PostgresDatabase(target.sink));
}

void put_postgres_table_in_place(const PostgresLayout& layout, const std::string& next, const std::string& folder,
                                 const PostgresTarget& target, bool overwrite) {
    const std::string mark = postgres_mark_of(layout, next);
    const auto made = read_postgres_mark(mark);
    if (!made) return;
    const std::string table = made->table.empty() ? target.table : made->table;
    PostgresDatabase database(target.sink);
    lock_alone(database, layout, table);
    const std::string from = next_of(*made, target);
    const FoundTable previous = find_offramp_table(database, layout, table);
    if (find_offramp_table(database, layout, from).there) {
        find_marked(database, layout, mark, from);
        // One may have begun since this run looked.
        if (!overwrite) require_no_job_under_way(previous, table, database, postgres_mark_of(layout, folder));
        database.transact([&] {
            if (previous.there) {
                require_replaceable_table(database, layout, table);
                carry_rights(database, layout, table, from);
                database.run(drop_of(layout, table));
            }
            for (const std::string& suffix : suffixes_of(layout)) {
                database.run("ALTER TABLE " + table_in_sql(from, suffix) + " RENAME TO " +
                             quoted_identifier(last_part(table) + suffix));
                rename_indexes(database, table_in_sql(table, suffix), last_part(from), last_part(table));
            }
        });
    } else if (!previous.there || previous.number != made->number) {
        fail_table_removed(from, database, mark);
    }
    // Killed before this, the table in its place is known by its number.
    replace_file(mark, postgres_mark_of(layout, folder));
}

void remove_next_postgres_table(const PostgresLayout& layout, const std::string& next, const PostgresTarget& target) {
    const std::string mark = postgres_mark_of(layout, next);
    const auto made = read_postgres_mark(mark);
    if (!made) return;
    PostgresDatabase database(target.sink);
    const std::string table = next_of(*made, target);
    if (const FoundTable found = find_offramp_table(database, layout, table);
        found.there && found.number == made->number)
        database.run(drop_of(layout, table));
    else if (!made->database.empty() && made->database != database.name())
        return;  // it is there, and only its own --sink leads to it
    std::error_code failure;
    fs::remove(mark, failure);
    if (failure) throw write_error("removing " + mark, failure.value());
}

}  // namespace offramp
