#include "consumer/sinks/postgres/postgres_run.hpp"

#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr std::size_t kLongestName = 63;  // of PostgreSQL's, in bytes

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

void rename_tables(PostgresDatabase& database, const PostgresLayout& layout, const std::string& from,
                   const std::string& to) {
    database.transact([&] {
        for (const std::string& suffix : suffixes_of(layout)) {
            database.run("ALTER TABLE " + table_in_sql(from, suffix) + " RENAME TO " +
                         quoted_identifier(last_part(to) + suffix));
            rename_indexes(database, table_in_sql(to, suffix), last_part(from), last_part(to));
        }
    });
}

// In the schema of the table.
std::string name_aside(const PostgresTarget& target, const std::string& run_id) {
    return target.table + "_before_" + run_id;
}

bool is_too_long(const std::string& name) {
    constexpr std::size_t kRoomForSuffix = 8;
    return last_part(name).size() > kLongestName - kRoomForSuffix;
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

bool look_at_postgres_table(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target,
                            bool overwrite) {
    PostgresDatabase database(target.sink);  // waits for the lock alone, as long as that may take
    lock_alone(database, layout, target.table);
    const FoundTable found = find_offramp_table(database, layout, target.table);
    if (!overwrite) require_no_job_under_way(found, target.table, database, postgres_mark_of(layout, folder));
    return found.there;
}

bool has_postgres_mark(const PostgresLayout& layout, const std::string& folder) {
    return read_postgres_mark(postgres_mark_of(layout, folder)).has_value();
}

void require_continued_postgres_table(const PostgresLayout& layout, const std::string& folder,
                                      const PostgresTarget& target) {
    PostgresDatabase database(target.sink);
    if (!find_offramp_table(database, layout, target.table).there || has_postgres_mark(layout, folder)) return;
    throw ConfigError("--resume found nothing in --output " + folder + " that continues " +
                          named(target.table, database) + ", which holds a run's results",
                      "Give that run's --output; or --overwrite instead of --resume, which renames the table; or "
                      "another --sink-table");
}

std::string postgres_table_name(const PostgresTarget& target) {
    return named(target.table, PostgresDatabase(target.sink));
}

std::string set_postgres_table_aside(const PostgresLayout& layout, const PostgresTarget& target,
                                     const std::string& run_id) {
    PostgresDatabase database(target.sink);
    lock_alone(database, layout, target.table);
    if (!find_offramp_table(database, layout, target.table).there) return {};
    std::string aside = name_aside(target, run_id);
    if (is_too_long(aside))
        throw ConfigError("--overwrite cannot rename the table '" + target.table + "': '" + aside +
                              "' is longer than the names of PostgreSQL",
                          "Give another --sink-table, or rename or drop the table");
    rename_tables(database, layout, target.table, aside);
    return aside;
}

void put_postgres_table_back(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target,
                             const std::string& run_id) {
    const std::string aside = name_aside(target, run_id);
    if (has_postgres_mark(layout, folder) || is_too_long(aside)) return;
    PostgresDatabase database(target.sink);
    if (find_offramp_table(database, layout, target.table).there || !find_offramp_table(database, layout, aside).there)
        return;
    rename_tables(database, layout, aside, target.table);
}

}  // namespace offramp
