#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/files.hpp"
#include "consumer/sinks/sqlite/sqlite_database.hpp"

namespace offramp {

// The counters of a database, which never decrease.
struct DatabaseCounts {
    std::int64_t commits = 0, changes = 0;
};

// The database of an output folder, FOLDER/NAME.sqlite, which all consumers of a run write to. It is created with its
// first rows.
//
// A hidden mark, ".offramp-made-NAME", stays beside it until its work is finished. If the mark exists and the database
// does not, the database was removed with results that count as done, and no new one may replace it. Both have a
// number, so that another run's database or an empty file in its place is refused.
//
// An older copy of the database is refused, too. The mark records two counters after the database does, so it never
// leads: the commits, in the table offramp_commits, and the changes that have moved from the log to the file, in the
// file's own header. If the newer log is beside an older file, only the second counter is lower.
//
// Owns the connection. Thread, blocks: as SqliteDatabase. Errors: those of SqliteDatabase; Error with SinkUnavailable
// when the database was removed; ConfigError when it is not an Offramp database.
class OutputDatabase {
  public:
    // `schema` creates the tables, and changes nothing if they exist. An existing database is opened and checked.
    OutputDatabase(std::string folder, std::string name, std::string schema, Durability durability);

    // Runs `work` in a transaction (SqliteDatabase::transact).
    void transact(const std::function<void(SqliteDatabase& database)>& work);

    const std::string& path() const { return path_; }

  private:
    void open();
    // Call it in a transaction; that transaction counts as committed. Errors: ConfigError if the database has fewer
    // commits or changes than were seen.
    DatabaseCounts count_commit();

    std::string path_, mark_, schema_;
    Durability durability_;
    std::optional<SqliteDatabase> database_;
    std::int64_t number_ = 0;  // identifies the database
    DatabaseCounts seen_;
};

// Errors: ConfigError if the table lacks one of these columns, because another version of the program or a run over
// another input created it.
void require_columns(SqliteDatabase& database, const std::string& table, const std::vector<std::string>& columns);

// Call after all writers have ended: turns the database into one file, without a log beside it. Does nothing without a
// database. Errors: those of OutputDatabase.
void finish_database(const std::string& folder, const std::string& name);
// Checks that a new database may replace the existing one: there is none, or it is an Offramp database in any state.
// Changes nothing. Errors: ConfigError when it is not an Offramp database; those of SqliteDatabase when that is
// unknown.
void require_replaceable(const std::string& folder, const std::string& name);
// True if anything is in the place of a new database, even the remains of a dead one.
bool has_database(const std::string& folder, const std::string& name);
// Moves the finished database of `next` into `folder`, where it replaces an existing one. May be killed and called
// again. Returns whether a database was moved, once its name is on the disk. Errors: those of require_replaceable(),
// before anything is replaced; Error with SinkUnavailable when the database was removed, or another process still has
// it open; SystemError with CannotWrite.
bool put_database_in_place(const std::string& next, const std::string& folder, const std::string& name);

}  // namespace offramp
