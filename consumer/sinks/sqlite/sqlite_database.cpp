#include "consumer/sinks/sqlite/sqlite_database.hpp"

#include <sqlite3.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/sqlite/output_database.hpp"

namespace offramp {
namespace {

// A page holds several vectors of a thousand numbers.
constexpr const char* kPageSize = "PRAGMA page_size = 16384";
constexpr std::uint64_t kAtOnce = 16384 + 24;  // a page with its header in the log

// A write past the limit was refused, or one just before it: SQLite loses that errno while it rolls back.
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

constexpr int kQuickLooks = 10;
constexpr std::chrono::microseconds kQuick{100};
constexpr std::chrono::microseconds kUsual{1000};

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

// A part may have a row for an item that it only saw, outside its own range.
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
    // EXTRA: a removed journal does not come back, which would undo a commit without the log.
    execute(durability == Durability::PowerCut ? "PRAGMA synchronous = EXTRA" : "PRAGMA synchronous = NORMAL");
}

SqliteDatabase SqliteDatabase::opened_to_read(std::string path) {
    return {std::move(path), SQLITE_OPEN_READONLY, kPatience};
}

SqliteDatabase::~SqliteDatabase() { statements_.clear(); }

void SqliteDatabase::Close::operator()(sqlite3* connection) const noexcept { sqlite3_close_v2(connection); }

// SQLite's own handler sleeps for up to a tenth of a second between two looks, far too long among writers of short
// transactions.
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

// When several processes start together, some get "database is locked" without a wait. So this class does all waiting
// itself.
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
        // Some errors have already ended the transaction.
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

void LockWait::begin() {
    lasted_ = {};
    last_look_.reset();
    looks_ = 0;
}

std::optional<std::chrono::microseconds> LockWait::next() {
    const TimePoint now = clock_->now();
    if (last_look_) lasted_ += std::min<std::chrono::nanoseconds>(now - *last_look_, kLongestLook);
    last_look_ = now;
    if (lasted_ >= patience_) return std::nullopt;
    return looks_++ < kQuickLooks ? kQuick : kUsual;
}

void join_databases(std::span<const ShardPart> parts, const std::string& folder, const std::string& name,
                    Durability durability) {
    // Beside the shards' own databases, which are removed after the merge: so are the leftovers of a death.
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
