#include "consumer/sinks/postgres/postgres_ownership.hpp"

#include <fstream>
#include <iterator>
#include <span>

#include "common/base/error.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/files/output_name.hpp"

namespace offramp {
namespace {

// How long to wait for locks of killed consumers whose death the server has not yet noticed.
constexpr const char* kPatience = "SET lock_timeout = '30s'";

constexpr std::string_view kEnded = " ended ";
constexpr std::string_view kWith = " with ";

// The prefix of Offramp's table comments (comment_of()).
std::string beginning_of_comment(const PostgresLayout& layout) {
    return "offramp " + std::string(layout.contents) + " ";
}

FoundTable find(PostgresDatabase& database, const PostgresLayout& layout, const std::string& relation) {
    const auto rows =
        database.rows("SELECT to_regclass($1), obj_description(to_regclass($1)::oid, 'pg_class')", {relation});
    const std::string comment = rows.at(0).at(1).value_or("");
    const std::string beginning = beginning_of_comment(layout);
    FoundTable found{.there = rows.at(0).at(0).has_value(), .ours = comment.starts_with(beginning)};
    if (!found.ours) return found;
    found.version = comment.substr(beginning.size(), comment.find(' ', beginning.size()) - beginning.size());
    found.number = comment.substr(comment.rfind(' ') + 1);
    found.ended = comment.starts_with(beginning + found.version + std::string(kEnded));
    if (const std::size_t with = comment.find(kWith); with != std::string::npos) {
        const std::size_t begin = with + kWith.size(), end = comment.rfind(' ');
        if (begin < end) found.further = comment.substr(begin, end - begin);
    }
    return found;
}

bool is_of_a_job(const FoundTable& found) { return found.number.starts_with("job-"); }

std::string describe_owner(const FoundTable& found) {
    return is_of_a_job(found) ? found.number.substr(0, found.number.find('.')) : "another run";
}

constexpr std::size_t kLongestName = 63;  // PostgreSQL's limit, in bytes

std::string last_part(const std::string& table) { return table.substr(table.find('.') + 1); }

// Indexes, and with them keys, are named after their table.
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

// A name in the table's schema.
std::string name_aside(const PostgresTarget& target, const std::string& run_id) {
    return target.table + "_before_" + run_id;
}

bool is_too_long(const std::string& name) {
    constexpr std::size_t kRoomForSuffix = 8;
    return last_part(name).size() > kLongestName - kRoomForSuffix;
}

}  // namespace

std::string postgres_mark_of(const PostgresLayout& layout, const std::string& folder) {
    return folder + "/" + std::string(kReservedPrefix) + "made-" + std::string(layout.contents) + "-postgres";
}

std::optional<PostgresMark> read_postgres_mark(const std::string& path) {
    std::ifstream file(path);
    if (!file) return std::nullopt;
    PostgresMark mark;
    for (std::string* line : {&mark.number, &mark.table, &mark.database}) std::getline(file, *line);
    return mark;
}

void put_postgres_mark(const PostgresLayout& layout, const std::string& path, const std::string& folder) {
    std::ifstream file(path);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    write_atomically(postgres_mark_of(layout, folder), std::as_bytes(std::span(text)), Durability::PowerCut);
}

std::string named(const PostgresMark& mark) {
    return "table '" + mark.table + "' of " + (mark.database.empty() ? "its --sink" : mark.database);
}

std::string named(const std::string& table, const PostgresDatabase& database) {
    return "table '" + table + "' of " + database.name();
}

std::string comment_of(const PostgresLayout& layout, const FoundTable& table) {
    std::string comment = beginning_of_comment(layout) + std::string(layout.version) + (table.ended ? " ended" : "");
    if (!table.further.empty()) comment += std::string(kWith) + table.further;
    return comment + " " + table.number;
}

std::vector<std::string> suffixes_of(const PostgresLayout& layout) {
    if (layout.second.suffix.empty()) return {""};
    return {"", std::string(layout.second.suffix)};
}

FoundTable find_offramp_table(PostgresDatabase& database, const PostgresLayout& layout, const std::string& table) {
    FoundTable rows;
    for (const std::string& suffix : suffixes_of(layout)) {
        const FoundTable found = find(database, layout, table_in_sql(table, suffix));
        if (found.there && !found.ours)
            throw ConfigError(named(table + suffix, database) + " was made by another program, or holds other results",
                              "Rename it, or give another --sink-table");
        if (suffix.empty()) rows = found;
    }
    return rows;
}

void fail_table_removed(const std::string& table, const PostgresDatabase& database, const std::string& mark) {
    const PostgresMark made = read_postgres_mark(mark).value_or(PostgresMark{});
    if (!made.database.empty() && made.database != database.name())
        throw ConfigError("the results of an earlier run into this --output are in " + named(made) +
                              ", but --sink names " + database.name() + ", which does not have them",
                          "Give the --sink of that run, and --resume; or give this run another --output; or remove " +
                              mark + " to discard those results");
    throw Error(ErrorKind::SinkUnavailable, named(table, database) + " is gone, with results that are recorded as done",
                "Restore it; or give --overwrite instead of --resume; or remove " + mark + " to continue without them");
}

void require_marked(const FoundTable& found, const PostgresLayout& layout, const std::string& table,
                    const PostgresDatabase& database, const std::string& mark) {
    if (found.version != layout.version)
        throw ConfigError(named(table, database) + " is of version " + found.version + "; this program supports " +
                              std::string(layout.version),
                          "Rename it, or give another --sink-table");
    const auto made = read_postgres_mark(mark);
    if (made && made->number != found.number)
        throw ConfigError(
            named(table, database) + " was recreated by another run, and this run's results in it are lost",
            "Give each run its own --sink-table; --overwrite instead of --resume computes all results again");
}

std::string number_of_job(const std::string& job, const std::string& random) { return job + "." + random; }

void require_of_job(const FoundTable& found, const PostgresTarget& target, const std::string& table,
                    const PostgresDatabase& database, const std::string& mark) {
    if (target.job.empty() ? !is_of_a_job(found) || read_postgres_mark(mark).has_value()
                           : found.number.starts_with(number_of_job(target.job, "")))
        return;
    throw ConfigError(named(table, database) + " holds results of " + describe_owner(found),
                      "Give each run and each job its own --sink-table");
}

void require_no_job_under_way(const FoundTable& found, const std::string& table, const PostgresDatabase& database,
                              const std::string& mark) {
    if (!found.there || found.ended || !is_of_a_job(found)) return;
    if (const auto made = read_postgres_mark(mark); made && made->number == found.number) return;
    throw ConfigError(
        named(table, database) + " holds results of " + describe_owner(found) + ", which is not merged yet",
        "Give each run and each job its own --sink-table; if that job is abandoned, drop the table, or give "
        "--overwrite");
}

FoundTable find_marked(PostgresDatabase& database, const PostgresLayout& layout, const std::string& mark,
                       const std::string& table) {
    const FoundTable found = find_offramp_table(database, layout, table);
    if (!found.there) fail_table_removed(table, database, mark);
    require_marked(found, layout, table, database, mark);
    return found;
}

std::string where_rows_are(PostgresDatabase& database, const PostgresLayout& layout, const std::string& mark,
                           const PostgresTarget& target) {
    const auto made = read_postgres_mark(mark);
    if (made && !made->table.empty() && find(database, layout, table_in_sql(made->table)).number == made->number)
        return made->table;
    return target.table;
}

std::string lock_of(PostgresDatabase& database, const PostgresLayout& layout, const std::string& table) {
    return beginning_of_comment(layout) + with_schema(database, table);
}

void lock_alone(PostgresDatabase& database, const PostgresLayout& layout, const std::string& table) {
    database.run(kPatience);
    try {
        database.run("SELECT pg_advisory_lock(hashtextextended($1, 0))", {lock_of(database, layout, table)});
    } catch (const PostgresError& error) {
        if (error.sqlstate() != "55P03") throw;
        throw Error(ErrorKind::RunInUse, "another run writes to " + named(table, database),
                    "Wait until it ends, or give this run another --sink-table");
    }
}

std::string table_in_sql(const std::string& table, std::string_view suffix) {
    const std::size_t dot = table.find('.');
    const std::string name = table.substr(dot + 1) + std::string(suffix);  // without a '.', from the beginning
    return dot == std::string::npos ? quoted_identifier(name)
                                    : quoted_identifier(table.substr(0, dot)) + "." + quoted_identifier(name);
}

std::string with_schema(PostgresDatabase& database, const std::string& table) {
    if (table.find('.') != std::string::npos) return table;
    return database.rows("SELECT current_schema()").at(0).at(0).value_or("") + "." + table;
}

void finish_postgres_table(const PostgresLayout& layout, const std::string& folder, const PostgresTarget& target,
                           const std::function<void(PostgresDatabase&, const std::string&)>& complete) {
    const std::string mark = postgres_mark_of(layout, folder);
    if (!read_postgres_mark(mark)) return;  // the run made no rows
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
    PostgresDatabase database(target.sink);  // waits only for the lock, without a limit
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
