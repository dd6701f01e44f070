#include "consumer/sinks/sqlite/shard_databases.hpp"

#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "common/base/error.hpp"
#include "consumer/sinks/files/write_error.hpp"
#include "consumer/sinks/sqlite/output_database.hpp"
#include "consumer/sinks/sqlite/sqlite_database.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

std::string path_in(const std::string& folder, const std::string& name) { return folder + "/" + name + ".sqlite"; }

std::vector<std::string> texts(SqliteDatabase& database, const std::string& question) {
    std::vector<std::string> found;
    for (SqliteStatement statement(database, question); statement.step();) found.push_back(statement.text(0));
    return found;
}

// The statements that create the tables and indexes of a database.
std::string schema_of(const std::string& path) {
    SqliteDatabase database = SqliteDatabase::opened_to_read(path);
    std::string schema;
    for (const std::string& statement : texts(database,
                                              "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name != "
                                              "'offramp_commits' ORDER BY type = 'index', rowid"))
        schema += statement + ";";
    return schema;
}

// A part may have a row for an item that it only saw beside its own.
void add_part(SqliteDatabase& database, const ShardPart& part, const std::string& path) {
    database.prepared("ATTACH ? AS part").bind(1, path).run();
    for (const std::string& table :
         texts(database, "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name != 'offramp_commits'")) {
        SqliteStatement items(database, "SELECT count(*) FROM pragma_table_info('" + table + "') WHERE name = 'item'");
        const bool has_items = items.step() && items.number(0) > 0;
        while (items.step()) {
        }
        const std::string share =
            "item >= " + std::to_string(part.items.begin) + " AND item < " + std::to_string(part.items.end);
        database.execute(("INSERT INTO main." + table + " SELECT * FROM part." + table + " WHERE " +
                          (has_items ? share : "true") + " ON CONFLICT DO NOTHING")
                             .c_str());
    }
    database.execute("DETACH part");
}

void make_folder(const std::string& folder) {
    std::error_code failure;
    fs::create_directories(folder, failure);
    if (failure) throw write_error("making the folder " + folder, failure.value());
}

void remove_folder(const std::string& folder) {
    std::error_code failure;
    fs::remove_all(folder, failure);
    if (failure) throw write_error("removing " + folder, failure.value());
}

}  // namespace

void join_databases(std::span<const ShardPart> parts, const std::string& folder, const std::string& name,
                    Durability durability) {
    // Among the shards' own, which go when all are merged: so does what a death leaves.
    const std::string beside = parts.empty() ? std::string() : parts.front().scratch(name);
    std::optional<SqliteDatabase> database;
    for (const ShardPart& part : parts) {
        if (!part.has(name + ".sqlite")) continue;
        const std::string path = path_in(part.folder, name);
        if (!database) {
            OutputDatabase(beside, name, schema_of(path), durability).transact([](SqliteDatabase&) {});
            database.emplace(path_in(beside, name), durability);
        }
        try {
            add_part(*database, part, path);
        } catch (const Error& problem) {
            throw Error(problem.kind(), "adding the rows of " + path + ": " + problem.what(),
                        "If that database is damaged: " + part.to_do_again);
        }
    }
    if (!database) return;
    database.reset();
    finish_database(beside, name);
    make_folder(folder);
    if (!put_database_in_place(beside, folder, name))
        throw Error(ErrorKind::SinkUnavailable, path_in(beside, name) + ", which received the shards' rows, is gone",
                    "Merge again, and leave that folder alone until it has ended");
    remove_folder(beside);
}

}  // namespace offramp
