#include "common/shm/run_objects.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <memory>
#include <thread>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/remedy.hpp"
#include "common/base/unique_fd.hpp"

namespace offramp {
namespace {

constexpr std::string_view kPrefix = "offramp-";
constexpr std::size_t kNonceDigits = 16;
constexpr std::size_t kMaxRunIdBytes = 48;
constexpr std::size_t kMaxGroupBytes = 16;
constexpr std::string_view kLedger = "ledger";
constexpr std::string_view kHeartbeats = "heartbeats";
constexpr std::chrono::milliseconds kNoWait{0};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_run_id_byte(char c) {
    return is_digit(c) || is_lower(c) || (c >= 'A' && c <= 'Z') || c == '.' || c == '_' || c == '-';
}
bool is_run_id(std::string_view text) {
    return !text.empty() && text.size() <= kMaxRunIdBytes && std::all_of(text.begin(), text.end(), is_run_id_byte);
}

std::string object_name(const RunNames& names, std::string_view suffix) {
    return "/" + std::string(kPrefix) + names.run_id + "-" + names.nonce_text() + "." + std::string(suffix);
}

std::string of_its_group(std::string_view kind, const RunNames& names) {
    return names.group.empty() ? std::string(kind) : std::string(kind) + "-" + names.group;
}

bool is_suffix_of_ours(std::string_view suffix) {
    if (suffix == "lock") return true;
    for (const std::string_view kind : {kLedger, kHeartbeats})
        if (suffix.starts_with(kind) &&
            (suffix == kind || (suffix[kind.size()] == '-' && RunNames::is_group_name(suffix.substr(kind.size() + 1)))))
            return true;
    return suffix.size() >= 2 && suffix.size() <= 11 && suffix[0] == 's' &&
           std::all_of(suffix.begin() + 1, suffix.end(), is_digit);
}

// An entry of /dev/shm with the exact form of an object's name. A run id may contain separators, so the name is parsed
// from its end: a prefix alone could match another run's objects.
struct NamedObject {
    RunNames run;
    std::string suffix;
    std::string name;
};

std::optional<NamedObject> parse_object_name(std::string_view entry) {
    const auto dot = entry.rfind('.');
    if (!entry.starts_with(kPrefix) || dot == std::string_view::npos) return std::nullopt;
    const std::string_view suffix = entry.substr(dot + 1);
    const std::string_view run = entry.substr(0, dot).substr(std::min(dot, kPrefix.size()));
    if (!is_suffix_of_ours(suffix) || run.size() < kNonceDigits + 2) return std::nullopt;
    const std::string_view digits = run.substr(run.size() - kNonceDigits);
    const std::string_view run_id = run.substr(0, run.size() - kNonceDigits - 1);
    if (run[run_id.size()] != '-' || !is_run_id(run_id)) return std::nullopt;
    const auto nonce = RunNames::nonce_in(digits);
    if (!nonce) return std::nullopt;
    NamedObject found{{std::string(run_id), *nonce}, std::string(suffix), "/" + std::string(entry)};
    if (object_name(found.run, suffix) != found.name) return std::nullopt;  // e.g. capital digits
    return found;
}

std::vector<NamedObject> list_objects() {
    std::vector<NamedObject> objects;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/dev/shm"), &::closedir);
    if (!folder) throw SystemError("listing /dev/shm", errno);
    while (const dirent* entry = ::readdir(folder.get()))
        if (auto object = parse_object_name(entry->d_name)) objects.push_back(std::move(*object));
    return objects;
}

bool of_run(const NamedObject& object, const RunNames& names) {
    return object.run.run_id == names.run_id && object.run.nonce == names.nonce;
}

// Only a regular file of this user is an Offramp object; root also sweeps only its own.
bool remove_own(const std::string& name) {
    const std::string path = "/dev/shm" + name;
    struct stat found = {};
    if (::lstat(path.c_str(), &found) != 0) return false;
    if (!S_ISREG(found.st_mode) || found.st_uid != ::geteuid()) {
        spdlog::warn("{} has the name of a dead run's object but is not a regular file of this user: it is left alone",
                     path);
        return false;
    }
    if (::unlink(path.c_str()) == 0) return true;
    spdlog::warn("{} could not be removed (errno {})", path, errno);
    return false;
}

// Returns false if another sweep of this run was active the whole time.
bool sweep_one(const RunNames& names, std::chrono::milliseconds patience, std::vector<std::string>& removed) {
    // Without the lock object nothing proves that the run is dead.
    if (const auto seen = RunLockFile::open(names); !seen || seen->owner() != ::geteuid()) return true;
    auto file = RunLockFile::open_to_sweep(names);
    if (!file || file->owner() != ::geteuid()) return true;
    if (!file->take_turn(patience)) return false;
    if (!file->try_lock_exclusive() || !file->still_named()) return true;
    for (const auto& object : list_objects())
        if (of_run(object, names) && object.suffix != "lock" && remove_own(object.name)) removed.push_back(object.name);
    // The lock goes last: a sweep that dies half-way leaves a run that can be swept.
    if (file->still_named() && remove_own(names.lock())) removed.push_back(names.lock());
    return true;
}

// The kernel grants a write lease only if no other process has the file open or mapped, in any namespace. While the
// lease lasts, no process can open the file. Returns nothing if the file is in use, or that is unknown.
std::optional<UniqueFd> lease_of_unused(const std::string& name) {
    const std::string path = "/dev/shm" + name;
    struct stat opened = {};
    struct stat named = {};
    UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (!file || ::fstat(file.get(), &opened) != 0 || !S_ISREG(opened.st_mode) || opened.st_uid != ::geteuid())
        return std::nullopt;
    // A process that opens the file causes a signal. SIGURG is ignored by default.
    if (::fcntl(file.get(), F_SETSIG, SIGURG) != 0 || ::fcntl(file.get(), F_SETLEASE, F_WRLCK) != 0)
        return std::nullopt;
    if (::lstat(path.c_str(), &named) != 0 || named.st_ino != opened.st_ino || named.st_dev != opened.st_dev)
        return std::nullopt;
    return file;
}

bool has_lock(const std::vector<NamedObject>& objects, const RunNames& run) {
    return std::ranges::any_of(
        objects, [&](const NamedObject& object) { return object.suffix == "lock" && of_run(object, run); });
}

// For a run whose lock was removed: removes its objects if no process uses any of them.
void sweep_without_lock(const std::vector<NamedObject>& objects, const RunNames& run,
                        std::vector<std::string>& removed) {
    std::vector<UniqueFd> leases;
    std::vector<std::string> names;
    for (const NamedObject& object : objects) {
        if (!of_run(object, run)) continue;
        auto lease = lease_of_unused(object.name);
        if (!lease) {
            spdlog::warn(
                "/dev/shm{} has lost its run's lock object, and may be in use: it stays until no process has it open",
                object.name);
            return;
        }
        leases.push_back(std::move(*lease));
        names.push_back(object.name);
    }
    if (RunLockFile::open(run)) return;  // the run has just begun
    for (const std::string& name : names)
        if (remove_own(name)) removed.push_back(name);
}

bool anything_left(const RunNames& names) {
    const auto objects = list_objects();
    return std::any_of(objects.begin(), objects.end(),
                       [&](const NamedObject& object) { return of_run(object, names); });
}

[[noreturn]] void throw_no_such_run(const RunNames& names, const char* why) {
    throw SystemError("joining run '" + names.run_id + "' by its lock /dev/shm" + names.lock(), ENOENT, why,
                      ErrorKind::NoSuchRun);
}

constexpr std::chrono::milliseconds kTurnLookEvery{5};

std::string path_of(const RunNames& names) { return "/dev/shm" + names.lock(); }

}  // namespace

std::string RunNames::lock() const { return object_name(*this, "lock"); }
std::string RunNames::ledger() const { return object_name(*this, of_its_group(kLedger, *this)); }
std::string RunNames::heartbeats() const { return object_name(*this, of_its_group(kHeartbeats, *this)); }
std::string RunNames::span(std::uint32_t index) const { return object_name(*this, "s" + std::to_string(index)); }

void RunNames::check_run_id(const std::string& run_id) {
    if (!is_run_id(run_id))
        throw ConfigError("run id '" + run_id + "' cannot name shared memory",
                          "Use 1 to 48 letters, digits, '.', '_' and '-'");
}

bool RunNames::is_group_name(std::string_view text) {
    return !text.empty() && text.size() <= kMaxGroupBytes && is_lower(text[0]) &&
           std::all_of(text.begin(), text.end(), [](char c) { return is_digit(c) || is_lower(c) || c == '-'; });
}

std::string RunNames::nonce_text() const { return fmt::format("{:0{}x}", nonce, kNonceDigits); }

std::optional<std::uint64_t> RunNames::nonce_in(std::string_view digits) {
    std::uint64_t nonce = 0;
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), nonce, 16);
    if (problem != std::errc{} || end != digits.data() + digits.size() || digits.size() != kNonceDigits)
        return std::nullopt;
    return nonce;
}

std::uint64_t RunNames::random_nonce() {
    std::uint64_t nonce = 0;
    while (nonce == 0) {
        const ssize_t got = ::getrandom(&nonce, sizeof nonce, 0);
        if (got < 0 && errno != EINTR) throw SystemError("asking the kernel for a random number", errno);
        if (got != sizeof nonce) nonce = 0;
    }
    return nonce;
}

RunLock RunLock::hold(const RunNames& names, bool create, bool readable_by_group) {
    RunNames::check_run_id(names.run_id);
    if (!create) {
        auto file = RunLockFile::open(names);
        if (!file) throw_no_such_run(names, "The run has ended, or was never there");
        const bool for_the_group = (file->mode() & 0040) != 0 && (file->mode() & 0007) == 0;
        if (file->owner() != ::geteuid() && !for_the_group)
            throw SystemError("joining run '" + names.run_id + "' of user id " + std::to_string(file->owner()), EACCES,
                              remedy(Remedy::OpenToAnotherUser), ErrorKind::NotPermitted);
        // The run's producer holds the shared lock; an exclusive lock means that a sweep found no live process.
        if (!file->try_lock_shared() || !file->still_named()) throw_no_such_run(names, "The run is being removed");
        return RunLock(std::move(*file).take_fd());
    }
    while (true) {
        auto file = RunLockFile::create(names, readable_by_group ? 0640 : 0600);
        if (!file)
            throw SystemError("creating the lock of run '" + names.run_id + "', /dev/shm" + names.lock(), EEXIST,
                              "Another producer has made it: every run needs its own nonce", ErrorKind::RunInUse);
        // A sweep may remove the file between creation and locking; then create another.
        file->lock_shared();
        if (file->still_named()) return RunLock(std::move(*file).take_fd());
    }
}

std::vector<std::string> sweep_dead_runs() {
    std::vector<std::string> removed;
    try {
        const auto objects = list_objects();
        std::vector<RunNames> runs;
        for (const auto& object : objects)
            if (std::ranges::none_of(runs, [&](const RunNames& run) { return of_run(object, run); }))
                runs.push_back(object.run);
        for (const RunNames& run : runs) {
            try {
                if (has_lock(objects, run))
                    sweep_one(run, kNoWait, removed);  // another sweep does the same work
                else
                    sweep_without_lock(objects, run, removed);
            } catch (const SystemError& problem) {
                // Another user's runs are swept by that user's programs.
                spdlog::log(problem.errno_value() == EACCES ? spdlog::level::debug : spdlog::level::warn,
                            "sweep of run '{}' skipped: {}", run.run_id, problem.what());
            } catch (const Error& problem) {
                spdlog::warn("sweep of run '{}' skipped: {}", run.run_id, problem.what());
            }
        }
    } catch (const Error& problem) {
        spdlog::warn("sweep skipped: {}", problem.what());
    }
    return removed;
}

bool sweep_run(const RunNames& names, std::chrono::milliseconds patience) {
    try {
        std::vector<std::string> removed;
        if (!sweep_one(names, patience, removed))
            spdlog::warn("another process has been removing run '{}' for {} ms: the next start removes the rest",
                         names.run_id, patience.count());
        return !anything_left(names);
    } catch (const Error& problem) {
        spdlog::warn("sweep of run '{}' skipped: {}", names.run_id, problem.what());
        return false;
    }
}

RunLockFile::RunLockFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {
    struct stat opened = {};
    if (::fstat(fd_.get(), &opened) != 0) throw SystemError("looking at the run's lock " + path_, errno);
    if (!S_ISREG(opened.st_mode)) throw SystemError("opening the run's lock " + path_ + ", not a regular file", EINVAL);
    device_ = opened.st_dev;
    inode_ = opened.st_ino;
    owner_ = opened.st_uid;
    mode_ = opened.st_mode & 07777;
}

std::optional<RunLockFile> RunLockFile::open(const RunNames& names) { return open(names, O_RDONLY); }
std::optional<RunLockFile> RunLockFile::open_to_sweep(const RunNames& names) { return open(names, O_RDWR); }

std::optional<RunLockFile> RunLockFile::open(const RunNames& names, int access) {
    const std::string path = path_of(names);
    // Not blocking, in case someone planted a FIFO under the name.
    UniqueFd fd(::open(path.c_str(), access | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
    if (!fd) {
        if (errno == ENOENT) return std::nullopt;
        throw SystemError("opening the run's lock " + path, errno,
                          errno == EACCES ? "It belongs to another user. " + remedy(Remedy::OpenToAnotherUser) : "",
                          errno == EACCES ? ErrorKind::NotPermitted : ErrorKind::System);
    }
    return RunLockFile(std::move(fd), path);
}

std::optional<RunLockFile> RunLockFile::create(const RunNames& names, mode_t mode) {
    const std::string path = path_of(names);
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (!fd) {
        if (errno == EEXIST) return std::nullopt;
        throw SystemError("creating the run's lock " + path, errno);
    }
    // The mode is exact, regardless of the umask.
    if (::fchmod(fd.get(), mode) != 0) throw SystemError("setting the mode of the run's lock " + path, errno);
    return RunLockFile(std::move(fd), path);
}

bool RunLockFile::lock(int operation) {
    while (::flock(fd_.get(), operation) != 0) {
        if (errno == EINTR) continue;
        if (errno == EWOULDBLOCK) return false;
        throw SystemError("locking the run's lock " + path_, errno);
    }
    return true;
}

void RunLockFile::lock_shared() { lock(LOCK_SH); }
bool RunLockFile::try_lock_shared() { return lock(LOCK_SH | LOCK_NB); }
bool RunLockFile::try_lock_exclusive() { return lock(LOCK_EX | LOCK_NB); }

bool RunLockFile::take_turn(std::chrono::milliseconds patience) {
    const auto give_up_at = std::chrono::steady_clock::now() + patience;
    while (true) {
        struct flock whole_file = {};
        whole_file.l_type = F_WRLCK;
        whole_file.l_whence = SEEK_SET;
        if (::fcntl(fd_.get(), F_OFD_SETLK, &whole_file) == 0) return true;
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            throw SystemError("taking the turn to sweep by the run's lock " + path_, errno);
        if (std::chrono::steady_clock::now() >= give_up_at) return false;
        std::this_thread::sleep_for(kTurnLookEvery);
    }
}

bool RunLockFile::still_named() const {
    struct stat named = {};
    return ::lstat(path_.c_str(), &named) == 0 && named.st_dev == device_ && named.st_ino == inode_;
}

}  // namespace offramp
