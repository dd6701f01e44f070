#include "consumer/sinks/sqlite/sqlite_database.hpp"

#include <sqlite3.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "consumer/sinks/files/write_error.hpp"

namespace offramp {
namespace {

// Vectors of a thousand numbers fit a page several times over.
constexpr const char* kPageSize = "PRAGMA page_size = 16384";
constexpr std::uint64_t kAtOnce = 16384 + 24;  // a page with its head in the log

// A write past the limit was refused, or one right before it: SQLite forgets that errno while it takes back what it had
// begun.
bool is_at_the_limit_of_files(const std::string& path) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return false;
    return std::ranges::any_of(std::array{"", "-wal", "-journal", "-shm"}, [&](const char* end) {
        std::error_code problem;
        const std::uintmax_t bytes = std::filesystem::file_size(path + end, problem);
        return !problem && bytes + kAtOnce > limit.rlim_cur;
    });
}

int errno_of(sqlite3* connection, int result, const std::string& path) {
    if ((result & 0xff) != SQLITE_READONLY && is_at_the_limit_of_files(path)) return EFBIG;
    if ((result & 0xff) == SQLITE_FULL || result == SQLITE_IOERR_SHMSIZE) return ENOSPC;
    if ((result & 0xff) == SQLITE_READONLY) return EROFS;
    const int given = sqlite3_system_errno(connection);
    return given != 0 ? given : EIO;
}

}  // namespace

// --- statements ---

SqliteStatement::SqliteStatement(SqliteDatabase& database, const std::string& sql) : database_(&database) {
    sqlite3_stmt* statement = nullptr;
    const int result = sqlite3_prepare_v3(database.connection_.get(), sql.c_str(), static_cast<int>(sql.size()),
                                          SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    statement_.reset(statement);
    if (result != SQLITE_OK) database.fail("preparing '" + sql + "'", result);
}

void SqliteStatement::Finalize::operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }

SqliteStatement& SqliteStatement::bind(int place, std::int64_t number) {
    const int result = sqlite3_bind_int64(statement_.get(), place, number);
    if (result != SQLITE_OK) database_->fail("binding a number", result);
    return *this;
}

SqliteStatement& SqliteStatement::bind(int place, std::string_view text) {
    const int result =
        sqlite3_bind_text64(statement_.get(), place, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
    if (result != SQLITE_OK) database_->fail("binding a text of " + std::to_string(text.size()) + " bytes", result);
    return *this;
}

SqliteStatement& SqliteStatement::bind_bytes(int place, std::span<const std::byte> bytes) {
    const int result = sqlite3_bind_blob64(statement_.get(), place, bytes.data(), bytes.size(), SQLITE_STATIC);
    if (result != SQLITE_OK) database_->fail("binding " + std::to_string(bytes.size()) + " bytes", result);
    return *this;
}

SqliteStatement& SqliteStatement::bind_nothing(int place) {
    const int result = sqlite3_bind_null(statement_.get(), place);
    if (result != SQLITE_OK) database_->fail("binding NULL", result);
    return *this;
}

bool SqliteStatement::step() {
    const int result = sqlite3_step(statement_.get());
    if (result == SQLITE_ROW) return true;
    const std::string sql = sqlite3_sql(statement_.get());
    sqlite3_reset(statement_.get());
    if (result != SQLITE_DONE) database_->fail(sql, result);
    return false;
}

void SqliteStatement::run() {
    while (step()) {
    }
}

std::int64_t SqliteStatement::number(int column) const { return sqlite3_column_int64(statement_.get(), column); }

std::string SqliteStatement::text(int column) const {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
    return text == nullptr
               ? std::string()
               : std::string(text, static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column)));
}

// --- the database ---

SqliteDatabase::SqliteDatabase(std::string path, int open_flags, std::chrono::milliseconds patience)
    : path_(std::move(path)), wait_(patience) {
    sqlite3* connection = nullptr;
    const int result =
        sqlite3_open_v2(path_.c_str(), &connection, open_flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
    connection_.reset(connection);
    if (result != SQLITE_OK) fail("opening it", result);
    wait_for_others();
}

SqliteDatabase::SqliteDatabase(std::string path, Durability durability, std::chrono::milliseconds patience)
    : SqliteDatabase(std::move(path), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, patience) {
    execute(kPageSize);
    start_log();
    execute(durability == Durability::PowerCut ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
}

SqliteDatabase SqliteDatabase::opened_to_read(std::string path) {
    return {std::move(path), SQLITE_OPEN_READONLY, kPatience};
}

SqliteDatabase::~SqliteDatabase() { statements_.clear(); }

void SqliteDatabase::Close::operator()(sqlite3* connection) const noexcept { sqlite3_close_v2(connection); }

// SQLite's own handler sleeps for up to a tenth of a second between two looks: among writers of short transactions that
// is far too long.
void SqliteDatabase::wait_for_others() {
    sqlite3_busy_handler(
        connection_.get(),
        [](void* self, int looks_before) {
            auto& database = *static_cast<SqliteDatabase*>(self);
            if (looks_before == 0) database.wait_.begin();
            return database.wait_on() ? 1 : 0;
        },
        this);
}

bool SqliteDatabase::wait_on() {
    const auto sleep = wait_.next();
    if (sleep) std::this_thread::sleep_for(*sleep);
    return sleep.has_value();
}

// When several processes begin together, some get "database is locked" without a wait. So all waiting is done here.
void SqliteDatabase::start_log() {
    sqlite3_busy_handler(connection_.get(), nullptr, nullptr);
    wait_.begin();
    while (true) {
        std::string mode;
        const int result = sqlite3_exec(
            connection_.get(), "PRAGMA journal_mode = WAL",
            [](void* to, int, char** values, char**) {
                *static_cast<std::string*>(to) = values[0];
                return 0;
            },
            &mode, nullptr);
        if (result == SQLITE_OK && mode == "wal") break;
        if (result == SQLITE_OK)
            throw Error(
                ErrorKind::CannotWrite,
                "database " + path_ + ": its file system does not support shared memory, which SQLite's log needs",
                "Give an output on a local disk");
        if ((result & 0xff) != SQLITE_BUSY || !wait_on()) fail("starting its log", result);
    }
    wait_for_others();
}

void SqliteDatabase::execute(const char* sql) {
    const int result = sqlite3_exec(connection_.get(), sql, nullptr, nullptr, nullptr);
    if (result != SQLITE_OK) fail(sql, result);
}

SqliteStatement& SqliteDatabase::prepared(const std::string& sql) {
    const auto found = statements_.find(sql);
    return found != statements_.end() ? found->second
                                      : statements_.emplace(sql, SqliteStatement(*this, sql)).first->second;
}

void SqliteDatabase::transact(const std::function<void()>& work) {
    execute("BEGIN IMMEDIATE");
    try {
        work();
        execute("COMMIT");
    } catch (...) {
        // Some errors have ended the transaction by themselves.
        if (sqlite3_get_autocommit(connection_.get()) == 0)
            sqlite3_exec(connection_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
        throw;
    }
    require_in_place();
}

// An open file can still be written after its name is gone: such commits are lost when it is closed.
void SqliteDatabase::require_in_place() {
    int moved = 0;
    if (sqlite3_file_control(connection_.get(), "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK && moved == 0)
        return;
    throw Error(ErrorKind::SinkUnavailable, "database " + path_ + " was moved or removed while it was written to",
                "Put it back, and the run continues");
}

std::int64_t SqliteDatabase::in_header(std::int64_t at) const {
    sqlite3_file* file = nullptr;
    int result = sqlite3_file_control(connection_.get(), "main", SQLITE_FCNTL_FILE_POINTER, static_cast<void*>(&file));
    std::array<unsigned char, 4> bytes{};
    if (result == SQLITE_OK && file != nullptr && file->pMethods != nullptr)
        result = file->pMethods->xRead(file, bytes.data(), static_cast<int>(bytes.size()), at);
    if (result != SQLITE_OK && result != SQLITE_IOERR_SHORT_READ) fail("reading its header", result);
    std::int64_t number = 0;
    for (const unsigned char byte : bytes) number = number << 8 | byte;
    return number;
}

void SqliteDatabase::leave_log_at_the_end() {
    const int result = sqlite3_db_config(connection_.get(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
    if (result != SQLITE_OK) fail("leaving its log", result);
}

void SqliteDatabase::close_log() {
    statements_.clear();
    sqlite3_busy_handler(connection_.get(), nullptr, nullptr);
    const int result = sqlite3_exec(connection_.get(), "PRAGMA journal_mode = DELETE", nullptr, nullptr, nullptr);
    if (result != SQLITE_OK && (result & 0xff) != SQLITE_BUSY) fail("ending its log", result);
}

void SqliteDatabase::fail(const std::string& tried, int result) const {
    const std::string text = sqlite3_errmsg(connection_.get());
    switch (result & 0xff) {
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
        case SQLITE_PROTOCOL:
            throw Error(
                ErrorKind::SinkUnavailable,
                "database " + path_ + " is kept locked by another program: " + tried + " waited " +
                    std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(wait_.patience()).count()) +
                    " ms",
                "End that program's transaction");
        case SQLITE_FULL:
        case SQLITE_READONLY:
        case SQLITE_CANTOPEN:
        case SQLITE_IOERR:
        case SQLITE_PERM:
            throw write_error("database " + path_ + " (" + tried + "; SQLite: " + text + ")",
                              errno_of(connection_.get(), result, path_));
        case SQLITE_NOTADB:
        case SQLITE_CORRUPT:
            throw Error(ErrorKind::CannotWrite, "database " + path_ + " cannot be used: " + text,
                        "Move the file away, or give another output");
        default:
            if (text.starts_with("no such table"))
                throw ConfigError(
                    "database " + path_ + ": " + text + ": the table is gone, with results that are recorded as done",
                    "Restore a copy of the database that has it, and continue with --resume; or give --overwrite "
                    "instead of --resume");
            throw Error(
                ErrorKind::System,
                "database " + path_ + ": " + tried + ": " + text + " (SQLite error " + std::to_string(result) + ")",
                "Check that this version of Offramp made the database");
    }
}

}  // namespace offramp
