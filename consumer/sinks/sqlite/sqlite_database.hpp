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

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "consumer/sinks/segments/segment_merge.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace offramp {

// Polls for a lock that another process holds: decides when to look next and when to give up. It looks after 0.1 ms at
// first and then after 1 ms, because transactions are short.
//
// The time between two looks counts for at most kLongestLook. After a longer gap this process was stopped (SIGSTOP, a
// sleeping machine) or had no core, and the lock's holder perhaps, too. So a wait lasts for `patience`, or longer on
// such a machine.
//
// Pure except for the clock, which it borrows. Thread: one.
class LockWait {
  public:
    static constexpr std::chrono::milliseconds kLongestLook{50};

    explicit LockWait(std::chrono::nanoseconds patience, const Clock& clock = kSteadyClock)
        : patience_(patience), clock_(&clock) {}

    // Starts a new wait with the next look.
    void begin();
    // Call after a look that found the lock taken: returns how long to sleep until the next one; nothing when the
    // patience has run out.
    std::optional<std::chrono::microseconds> next();

    std::chrono::nanoseconds patience() const { return patience_; }

  private:
    std::chrono::nanoseconds patience_;
    const Clock* clock_;
    std::chrono::nanoseconds lasted_{0};
    std::optional<TimePoint> last_look_;
    int looks_ = 0;
};

class SqliteDatabase;

// A prepared statement of a database, which may run repeatedly: bind all values, run it, read rows. Places count from
// 1, columns from 0. It borrows bound text and bytes until run() or the last step(). Errors: those of the database.
class SqliteStatement {
  public:
    SqliteStatement(SqliteDatabase& database, const std::string& sql);

    SqliteStatement& bind(int place, std::int64_t number);
    SqliteStatement& bind(int place, std::string_view text);
    SqliteStatement& bind_bytes(int place, std::span<const std::byte> bytes);
    SqliteStatement& bind_nothing(int place);

    // Returns true while there is another row.
    bool step();
    // Runs a statement without rows to the end.
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

// A SQLite database that several processes write to, with a write-ahead log, short transactions, and a wait while
// another process writes. With Durability::PowerCut a commit is on the disk when it returns. Otherwise a power cut may
// lose the last commits, but never the database.
//
// Owns the connection. Thread: one; use it on only one side of a fork. Blocks: on the file system, and up to `patience`
// for other processes (LockWait). Errors: Error with SinkUnavailable when another process locks the database for
// longer, or when its file was moved or removed; SystemError with CannotWrite when the disk is full, read-only or
// failing; Error with CannotWrite for a file that is not a sound database; ConfigError when a table is gone.
class SqliteDatabase {
  public:
    static constexpr std::chrono::milliseconds kPatience{10'000};

    // Creates the database if it is missing; its folder must exist.
    SqliteDatabase(std::string path, Durability durability, std::chrono::milliseconds patience = kPatience);
    // Opens an existing database for reading; neither the file nor its log changes.
    static SqliteDatabase opened_to_read(std::string path);
    SqliteDatabase(const SqliteDatabase&) = delete;
    SqliteDatabase& operator=(const SqliteDatabase&) = delete;
    ~SqliteDatabase();

    const std::string& path() const { return path_; }
    // Runs statements without bound values; their rows are ignored.
    void execute(const char* sql);
    // The statement, prepared on the first call and ready for new values.
    SqliteStatement& prepared(const std::string& sql);
    // Runs `work` in its own, atomic transaction. When this returns, the database file is still at its path.
    void transact(const std::function<void()>& work);
    // A 32-bit number in the header of the file itself, ignoring the log beside it. It is read through the connection,
    // because closing another descriptor would release all locks that this process has on the file.
    std::int64_t in_header(std::int64_t at) const;
    // Closing the connection will leave the log for close_log(), because another file may have replaced the database by
    // then.
    void leave_log_at_the_end();
    // Moves the log's contents into the database's file and removes the log, so that the database is one file. Does
    // nothing while another process has it open.
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
    // Sleeps until the next look at a lock; returns false when the patience has run out.
    bool wait_on();

    std::string path_;
    LockWait wait_;
    std::unique_ptr<sqlite3, Close> connection_;
    std::map<std::string, SqliteStatement> statements_;
};

// Joins the databases of a job's shards, one in each part's folder, into FOLDER/NAME.sqlite: every table, and for
// tables of items only the rows of the part's own items. It fills the database beside its place and moves it there
// whole (put_database_in_place()). The parts stay. Does nothing if no part has a database. May be killed at any point
// and called again, with the same result. Errors: as put_database_in_place(), and those of SqliteDatabase.
void join_databases(std::span<const ShardPart> parts, const std::string& folder, const std::string& name,
                    Durability durability);

}  // namespace offramp
