#include "consumer/sinks/sqlite/output_database.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <sstream>
#include <system_error>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/files.hpp"
#include "common/base/log.hpp"
#include "common/base/unique_fd.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/files/held_output.hpp"
#include "consumer/sinks/files/output_name.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

// The application_id of every Offramp database: "OFFR". Its user_version has the version of Offramp's tables in the
// lowest byte; another version is another layout. Above it is a number that identifies the database, which its mark has
// too. 0, like an empty mark, means a database begun before databases had numbers.
constexpr std::int64_t kApplication = 0x4f464652;
constexpr std::int64_t kVersion = 1;
constexpr int kVersionBits = 8;
constexpr std::uint32_t kLargestNumber = (1U << 23U) - 1;  // user_version is signed

std::string path_of(const std::string& folder, const std::string& name) { return folder + "/" + name + ".sqlite"; }

std::string mark_of(const std::string& folder, const std::string& name) {
    return folder + "/" + std::string(kReservedPrefix) + "made-" + name;
}

// If the name's target cannot be inspected, opening it reports why.
bool is_there(const std::string& path) {
    std::error_code failure;
    return fs::status(path, failure).type() != fs::file_type::not_found;
}

[[noreturn]] void fail_table_removed(const std::string& path, const std::string& mark) {
    throw Error(
        ErrorKind::SinkUnavailable, "database " + path + " is gone, with results that are recorded as done",
        "Put it back, and the run continues; or end the run, and give --overwrite instead of --resume; or remove " +
            mark + " to continue without them");
}

std::int64_t number_of(SqliteDatabase& database, const char* question) {
    SqliteStatement statement(database, question);
    return statement.step() ? statement.number(0) : 0;
}

// A database without tables has no owner: it was begun, and contains nothing.
bool is_empty(SqliteDatabase& database) { return number_of(database, "SELECT count(*) FROM sqlite_master") == 0; }

bool has_application_id(SqliteDatabase& database) {
    return number_of(database, "PRAGMA application_id") == kApplication;
}

void require_offramp_database(SqliteDatabase& database) {
    if (is_empty(database)) return;
    if (!has_application_id(database))
        throw ConfigError("database " + database.path() + " was made by another program",
                          "Move it away, or give another --output");
    const std::int64_t version = number_of(database, "PRAGMA user_version") & ((1 << kVersionBits) - 1);
    if (version != kVersion)
        throw ConfigError("database " + database.path() + " has tables of version " + std::to_string(version) +
                              "; this program supports " + std::to_string(kVersion),
                          "Move it away, or give another --output");
}

std::int64_t own_number_of(SqliteDatabase& database) {
    return number_of(database, "PRAGMA user_version") >> kVersionBits;
}

std::int64_t new_user_version() {
    std::random_device random;
    return std::int64_t{1 + random() % kLargestNumber} << kVersionBits | kVersion;
}

std::string remedy_without(const std::string& mark) {
    return "Put that one back, and continue with --resume; or give --overwrite instead of --resume; or remove " + mark +
           " to continue with the present one";
}

using Counts = DatabaseCounts;

// The contents of the mark. Bytes are written in place, under a lock, because a consumer may be killed between commit
// and mark.
class Mark {
  public:
    explicit Mark(std::string path)
        : path_(std::move(path)), file_(::open(HeldOutput::through(path_).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW)) {
        if (!file_ && errno != ENOENT) throw write_error(path_, errno);
        if (file_) lock();
    }

    // 0: there is no mark, or a version without numbers left it.
    std::int64_t number() const { return contents().number; }
    // A reboot may lose commits that the mark still counts, so counters from an earlier boot count as 0.
    Counts counts() const {
        const Contents found = contents();
        return found.boot == boot_id() ? found.counts : Counts();
    }

    void note(std::int64_t number, const Counts& seen) {
        if (!file_) return;
        const Counts noted = counts();
        const std::string text =
            text_of(number, {std::max(noted.commits, seen.commits), std::max(noted.changes, seen.changes)});
        if (::lseek(file_.get(), 0, SEEK_SET) != 0) throw write_error(path_, errno);
        write_all(file_.get(), std::as_bytes(std::span(text)),
                  [this](int problem) { return write_error(path_, problem); });
    }

    static std::string text_of(std::int64_t number, const Counts& counts) {
        return fmt::format("{} {:020} {:020} {}\n", number, counts.commits, counts.changes, boot_id());
    }

  private:
    struct Contents {
        std::int64_t number = 0;
        Counts counts;
        std::string boot;
    };

    Contents contents() const {
        std::array<char, 256> text{};
        const ssize_t got = file_ ? ::pread(file_.get(), text.data(), text.size(), 0) : 0;
        std::istringstream words(std::string(text.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))));
        Contents found;
        if (words >> found.number) words >> found.counts.commits >> found.counts.changes >> found.boot;
        return found;
    }

    static const std::string& boot_id() {
        static const std::string id = [] {
            std::ifstream file("/proc/sys/kernel/random/boot_id");
            std::string text;
            file >> text;
            return text.empty() ? "unknown" : text;
        }();
        return id;
    }

    // The lock ends when the file is closed.
    void lock() const {
        struct flock whole {};
        whole.l_type = F_WRLCK;
        whole.l_whence = SEEK_SET;
        while (::fcntl(file_.get(), F_OFD_SETLKW, &whole) != 0 && errno == EINTR) {
        }
    }

    std::string path_;
    UniqueFd file_;
};

std::int64_t commits_of(SqliteDatabase& database) {
    if (number_of(database, "SELECT count(*) FROM sqlite_master WHERE name = 'offramp_commits'") == 0) return 0;
    return number_of(database, "SELECT count FROM offramp_commits");
}

// SQLite's own counter: each commit that writes the header raises it, once that has moved from the log to the file.
std::int64_t changes_of(const SqliteDatabase& database) { return database.in_header(24); }

void require_not_older(const std::string& path, const Counts& there, const Counts& seen, const std::string& mark) {
    if (there.commits >= seen.commits && there.changes >= seen.changes) return;
    throw ConfigError(fmt::format("database {} is an older copy of the one that this run wrote to, and lacks results "
                                  "that are recorded as done: it has {} commits and {} changes, of {} and {}",
                                  path, there.commits, there.changes, seen.commits, seen.changes),
                      remedy_without(mark));
}

// Call it before the database is opened: opening or closing may move the newer database's log into the file, which
// would hide that the file is older.
void require_file_not_older(const std::string& path, const std::string& mark) {
    const Mark noted(mark);
    const SqliteDatabase file = SqliteDatabase::opened_to_read(path);              // only its header is read
    const bool is_another = file.in_header(60) >> kVersionBits != noted.number();  // opening the database reports that
    const Counts seen = noted.counts();
    if (!is_another) require_not_older(path, {seen.commits, changes_of(file)}, seen, mark);
}

// Another database in its place lacks the results that count as done.
void require_marked(SqliteDatabase& database, const std::string& mark) {
    const Mark noted(mark);
    if (const std::int64_t number = noted.number(); number != 0 && number != own_number_of(database))
        throw ConfigError(
            "database " + database.path() + " is not the one that this run began, whose results are recorded as done",
            remedy_without(mark));
    require_not_older(database.path(), {commits_of(database), changes_of(database)}, noted.counts(), mark);
}

// SQLite's side files of a database that is open, or whose program was killed.
std::array<std::string, 3> logs_of(const std::string& path) {
    return {path + "-journal", path + "-wal", path + "-shm"};
}

std::uint32_t big_endian(const char* four_bytes) {
    std::uint32_t number = 0;
    for (int i = 0; i < 4; ++i) number = number << 8 | static_cast<unsigned char>(four_bytes[i]);
    return number;
}

// Whether the schema in a database's first page, which begins at `at`, has entries. Views need no further page.
bool has_entries(const std::string& file, std::streamoff at) {
    constexpr std::streamoff kNumberAt = 103;  // 2 bytes
    std::ifstream page(file, std::ios::binary);
    page.seekg(at + kNumberAt);
    return page.get() > 0 || page.get() > 0;
}

// Whether the database was empty before the transaction in its rollback journal; nothing without such a transaction. A
// killed program leaves one, and then SQLite reads the database only after it has written to it.
std::optional<bool> was_empty_before(const std::string& path, const std::string& journal) {
    constexpr std::string_view kMagic("\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", 8);
    constexpr std::size_t kPagesAt = 16, kFirstRecordAt = 20;
    constexpr std::streamoff kPageInRecord = 4;
    std::array<char, 24> header{};
    std::ifstream file(journal, std::ios::binary);
    file.read(header.data(), header.size());
    if (!file || !std::string_view(header.data(), header.size()).starts_with(kMagic)) return std::nullopt;
    const std::uint32_t pages = big_endian(header.data() + kPagesAt);
    // Before the page changes in the file, the journal has it as it was.
    const std::streamoff was = big_endian(header.data() + kFirstRecordAt) + kPageInRecord;
    return pages == 0 || (pages == 1 && !has_entries(path, 0) && !has_entries(journal, was));
}

// The header of the file names its maker, unless that part is still in the log; damage after the header does not
// matter. Otherwise asks SQLite. A database that is killed before it has its log is still empty.
bool is_offramp_database(const std::string& path) {
    constexpr std::string_view kMagic("SQLite format 3\0", 16);
    constexpr std::size_t kApplicationAt = 68;
    std::array<char, 100> header{};
    if (!fs::is_regular_file(path)) return false;
    std::ifstream file(path, std::ios::binary);
    if (!file) throw write_error("reading whose database " + path + " is", errno);
    file.read(header.data(), header.size());
    if (file.gcount() == 0) return true;
    if (!std::string_view(header.data(), header.size()).starts_with(kMagic)) return false;
    if (big_endian(header.data() + kApplicationAt) == kApplication) return true;
    if (const auto was_empty = was_empty_before(path, path + "-journal")) return *was_empty;
    SqliteDatabase database = SqliteDatabase::opened_to_read(path);
    return is_empty(database) || has_application_id(database);
}

}  // namespace

OutputDatabase::OutputDatabase(std::string folder, std::string name, std::string schema, Durability durability)
    : path_(path_of(folder, name)), mark_(mark_of(folder, name)), schema_(std::move(schema)), durability_(durability) {
    if (is_there(path_))
        open();
    else if (is_there(mark_))
        fail_table_removed(path_, mark_);
}

void OutputDatabase::open() {
    if (!is_there(path_) && is_there(mark_)) fail_table_removed(path_, mark_);
    const std::string folder = fs::path(path_).parent_path().string();
    make_folder_of_results(folder);
    if (is_there(path_)) require_file_not_older(path_, mark_);
    database_.emplace(path_, durability_);
    database_->leave_log_at_the_end();
    require_offramp_database(*database_);
    require_marked(*database_, mark_);
    database_->transact([&] {
        database_->execute(
            "CREATE TABLE IF NOT EXISTS offramp_commits (id INTEGER PRIMARY KEY CHECK (id = 1), count INTEGER NOT "
            "NULL)");
        database_->execute("INSERT INTO offramp_commits VALUES (1, 0) ON CONFLICT DO NOTHING");
        if (has_application_id(*database_)) return;
        database_->execute(("PRAGMA application_id = " + std::to_string(kApplication)).c_str());
        database_->execute(("PRAGMA user_version = " + std::to_string(new_user_version())).c_str());
        database_->execute(schema_.c_str());
    });
    number_ = own_number_of(*database_);
    if (!is_there(mark_)) {
        const std::string text = Mark::text_of(number_, {});
        write_atomically(mark_, std::as_bytes(std::span(text)), durability_);
    } else if (durability_ == Durability::PowerCut) {
        flush_folder(folder);  // the mark's writer may have died before it flushed the names
    }
}

void OutputDatabase::transact(const std::function<void(SqliteDatabase&)>& work) {
    if (!database_) open();
    Counts now;
    database_->transact([&] {
        now = count_commit();
        work(*database_);
    });
    seen_ = now;
    Mark(mark_).note(number_, seen_);
}

// Other consumers' commits may come between. Each commit writes the header, so that its counter rises.
DatabaseCounts OutputDatabase::count_commit() {
    static const std::string header = "PRAGMA application_id = " + std::to_string(kApplication);
    database_->prepared("UPDATE offramp_commits SET count = count + 1").run();
    database_->prepared(header).run();
    SqliteStatement& count = database_->prepared("SELECT count FROM offramp_commits");
    Counts there{.commits = 0, .changes = changes_of(*database_)};
    while (count.step()) there.commits = count.number(0);
    require_not_older(path_, there, {seen_.commits + 1, seen_.changes}, mark_);
    return there;
}

void require_columns(SqliteDatabase& database, const std::string& table, const std::vector<std::string>& columns) {
    SqliteStatement& there = database.prepared("SELECT count(*) FROM pragma_table_info(?) WHERE name = ?");
    for (const std::string& column : columns) {
        there.bind(1, table).bind(2, column);
        const bool is_there = there.step() && there.number(0) > 0;
        while (there.step()) {
        }
        if (!is_there)
            throw ConfigError("database " + database.path() + " has no column '" + column + "' in its table '" + table +
                                  "', which this run fills: it was created for another input",
                              "Give --overwrite instead of --resume, or another --output");
    }
}

void finish_database(const std::string& folder, const std::string& name) {
    const std::string path = path_of(folder, name), mark = mark_of(folder, name);
    if (is_there(path)) {
        require_file_not_older(path, mark);
        SqliteDatabase database(path, Durability::PowerCut);
        database.leave_log_at_the_end();
        require_marked(database, mark);
        database.close_log();
    } else if (is_there(mark)) {
        fail_table_removed(path, mark);
    }
}

void require_replaceable(const std::string& folder, const std::string& name) {
    const std::string path = path_of(folder, name);
    if (is_there(path)) {
        if (!is_offramp_database(path)) fail_file_exists(path, "database goes");
        return;
    }
    if (is_there(mark_of(folder, name))) return;
    for (const std::string& log : logs_of(path))
        if (is_there(log)) fail_file_exists(log, "database goes");
}

bool has_database(const std::string& folder, const std::string& name) {
    const std::string path = path_of(folder, name);
    const auto logs = logs_of(path);
    return is_there(path) || is_there(mark_of(folder, name)) || std::any_of(logs.begin(), logs.end(), is_there);
}

// Removes a previous database's log before replacing the database, because SQLite would read it into the new one. After
// a kill or a power cut in between, this function runs again before either is opened. The database moves last: while it
// is in `next`, the move is unfinished.
bool put_database_in_place(const std::string& next, const std::string& folder, const std::string& name) {
    const std::string from = path_of(next, name), to = path_of(folder, name);
    const std::string mark = mark_of(next, name);
    if (!is_there(from)) {
        if (is_there(mark)) fail_table_removed(from, mark);
        return false;
    }
    const auto logs = logs_of(from);
    if (std::any_of(logs.begin(), logs.end(), is_there))
        throw Error(ErrorKind::SinkUnavailable,
                    "database " + from + " is open in another program, and cannot replace " + to,
                    "End that program, and continue with --resume");
    require_replaceable(folder, name);
    bool had_log = false;
    for (const std::string& log : logs_of(to)) {
        std::error_code failure;
        had_log |= fs::remove(log, failure);
        if (failure) throw write_error("removing " + log, failure.value());
    }
    if (had_log) flush_folder(folder);
    if (is_there(mark)) replace_file(mark, mark_of(folder, name));
    replace_file(from, to);
    flush_folder(folder);
    return true;
}

}  // namespace offramp
