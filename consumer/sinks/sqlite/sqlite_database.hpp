#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/durability.hpp"
#include "common/base/error.hpp"
#include "consumer/sinks/sqlite/lock_wait.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace offramp {

class SqliteDatabase;

// One statement of a database, to be run as often as wanted: bind all values, run it, read rows. Places are counted
// from 1, columns from 0. Bound text and bytes are borrowed until run() or the last step(). Errors: those of the
// database.
class SqliteStatement {
  public:
    SqliteStatement(SqliteDatabase& database, const std::string& sql);

    SqliteStatement& bind(int place, std::int64_t number);
    SqliteStatement& bind(int place, std::string_view text);
    SqliteStatement& bind_bytes(int place, std::span<const std::byte> bytes);
    SqliteStatement& bind_nothing(int place);

    // True while there is another row.
    bool step();
    // To the end, for a statement without rows.
    void run();
    std::int64_t number(int column) const;
    std::string text(int column) const;

  private:
    struct Finalize {
        void operator()(sqlite3_stmt* statement) const noexcept;
    };
    SqliteDatabase* database_;
    std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// A SQLite database that several processes write to: a write-ahead log, transactions that are short, patience while
// another one writes. With Durability::PowerCut a commit is on the disk when it returns; without, a power cut may cost
// the last commits, never the database.
//
// Owns the connection. Thread: one, and never one side of a fork. Blocks: on the file system, and up to `patience` for
// others (LockWait). Errors: Error with SinkUnavailable when another process keeps the database locked for longer, or
// when its file was moved or removed; SystemError with CannotWrite when the disk is full, read-only or failing; Error
// with CannotWrite for a file that is not a sound database; ConfigError when a table is gone.
class SqliteDatabase {
  public:
    static constexpr std::chrono::milliseconds kPatience{10'000};

    // Makes the database when there is none; its folder must be there.
    SqliteDatabase(std::string path, Durability durability, std::chrono::milliseconds patience = kPatience);
    // One that is there, to be read; neither the file nor its log changes.
    static SqliteDatabase opened_to_read(std::string path);
    SqliteDatabase(const SqliteDatabase&) = delete;
    SqliteDatabase& operator=(const SqliteDatabase&) = delete;
    ~SqliteDatabase();

    const std::string& path() const { return path_; }
    // Runs statements that have no values and whose rows are ignored.
    void execute(const char* sql);
    // The statement, made at the first call; ready for new values.
    SqliteStatement& prepared(const std::string& sql);
    // Runs `work` in its own, atomic transaction. When this returns, the database is still where it was.
    void transact(const std::function<void()>& work);
    // A number of 32 bits in the header of the file itself, which a log beside it does not reach. Read by the
    // connection: closing another descriptor would give up all locks that this process has on the file.
    std::int64_t in_header(std::int64_t at) const;
    // Its end leaves the log as it is, for close_log(): another file may be in its place by then.
    void leave_log_at_the_end();
    // Brings what the log holds into the database's file and ends the log, so that the database is one file. Nothing is
    // done while another process has it open.
    void close_log();

    [[noreturn]] void fail(const std::string& tried, int result) const;

  private:
    friend class SqliteStatement;
    struct Close {
        void operator()(sqlite3* connection) const noexcept;
    };

    SqliteDatabase(std::string path, int open_flags, std::chrono::milliseconds patience);
    void start_log();
    void require_in_place();
    void wait_for_others();
    // Sleeps until the next look at a lock; false if there is none.
    bool wait_on();

    std::string path_;
    LockWait wait_;
    std::unique_ptr<sqlite3, Close> connection_;
    std::map<std::string, SqliteStatement> statements_;
};

}  // namespace offramp
