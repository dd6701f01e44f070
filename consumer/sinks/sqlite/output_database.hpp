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

// The database of an output folder, FOLDER/NAME.sqlite, which all consumers of a run write to; made with its first
// rows.
//
// Beside it is a hidden mark, ".offramp-made-NAME", until the work in it is finished: when the mark is there and the
// database is not, it was removed with results that count as done, and another must not be begun in its place. Both
// have a number: another run's, or an empty file, is refused in its place.
//
// An older copy of the database is refused, too. What it counts, the mark notes behind it, so that the mark never
// leads: its commits, in its table offramp_commits, and, in the file's own header, the changes that have come there
// from the log. If the log of the newer one is beside an older file, only the second are fewer.
//
// Owns the connection. Thread, blocks: as SqliteDatabase. Errors: those of SqliteDatabase; Error with SinkUnavailable
// when the database was taken away; ConfigError when it is not an Offramp database.
class OutputDatabase {
  public:
    // `schema` makes the tables, and changes nothing where they are. A database that is there is opened and looked at.
    OutputDatabase(std::string folder, std::string name, std::string schema, Durability durability);

    // Runs `work` in a transaction (SqliteDatabase::transact).
    void transact(const std::function<void(SqliteDatabase& database)>& work);

    const std::string& path() const { return path_; }

  private:
    void open();
    // Within a transaction, which counts as committed. Errors: ConfigError where fewer are there than were seen.
    DatabaseCounts count_commit();

    std::string path_, mark_, schema_;
    Durability durability_;
    std::optional<SqliteDatabase> database_;
    std::int64_t number_ = 0;  // the database's own
    DatabaseCounts seen_;
};

// Errors: ConfigError where the table has not all these columns: another version of the program began it, or a run over
// another input.
void require_columns(SqliteDatabase& database, const std::string& table, const std::vector<std::string>& columns);

// After all writers have ended: makes the database one file, without a log beside it. Without one nothing is done.
// Errors: those of OutputDatabase.
void finish_database(const std::string& folder, const std::string& name);
// The obstacle to a new database: nothing, or an Offramp database in any state. Changes nothing. Errors: ConfigError
// when it is not an Offramp database; those of SqliteDatabase when that is unknown.
void require_replaceable(const std::string& folder, const std::string& name);
// True if there is anything in the place of a new database, even the remains of a dead one.
bool has_database(const std::string& folder, const std::string& name);
// The database of `next`, which is finished, takes the place of the one in `folder`, if any. May be killed and called
// again. Returns whether there was one. Errors: those of require_replaceable(), before anything is replaced; Error with
// SinkUnavailable when it was taken away, or another process still has it open; SystemError with CannotWrite.
bool put_database_in_place(const std::string& next, const std::string& folder, const std::string& name);

}  // namespace offramp
