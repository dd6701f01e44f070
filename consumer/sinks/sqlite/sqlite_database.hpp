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

// Polls for a lock that another process has: when to look next, and when it has been
// enough. Looks come after 0.1 ms at first and then after 1 ms, since what is waited for is a short transaction.
//
// The time between two looks counts for at most kLongestLook: in more than that this process was stopped (SIGSTOP, a
// machine that slept) or had no core, and perhaps so was the lock's holder. So a wait lasts for `patience` or, on such
// a machine, longer.
//
// Pure but for the clock, which it borrows. Thread: one.
class LockWait {
  public:
    static constexpr std::chrono::milliseconds kLongestLook{50};

    explicit LockWait(std::chrono::nanoseconds patience, const Clock& clock = kSteadyClock)
        : patience_(patience), clock_(&clock) {}

    // The next look is the first of another wait.
    void begin();
    // After a look that found the lock taken: how long to sleep until the next one; nothing when patience is at an end.
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

// Makes one database, FOLDER/NAME.sqlite, of those that shards of a job filled, each in the folder of its part: every
// table, and of tables of items the rows of the part's own. It is filled beside its place and put there whole
// (put_database_in_place()). The parts stay. Where no part has one, nothing is done. Killed at any point and called
// again, the result is the same. Errors: as there, and those of SqliteDatabase.
void join_databases(std::span<const ShardPart> parts, const std::string& folder, const std::string& name,
                    Durability durability);

}  // namespace offramp
