#include "consumer/sinks/files/atomic_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "common/base/failpoint.hpp"
#include "common/base/files.hpp"
#include "common/base/log.hpp"
#include "common/base/remedy.hpp"
#include "common/base/scarcity.hpp"
#include "consumer/sinks/files/held_output.hpp"
#include "consumer/sinks/files/output_name.hpp"

namespace offramp {
namespace {

namespace fs = std::filesystem;

std::string temporary_prefix() { return std::string(kReservedPrefix) + "tmp-"; }

std::string next_temporary(const std::string& path) {
    static std::atomic<std::uint64_t> counter{0};
    const std::size_t slash = path.rfind('/');
    return path.substr(0, slash == std::string::npos ? 0 : slash + 1) + temporary_prefix() +
           std::to_string(::getpid()) + "-" + std::to_string(counter.fetch_add(1));
}

// A held folder exists, even if its name leads elsewhere.
void make_folder(const fs::path& folder) {
    if (HeldOutput::holds(folder.string())) return;
    HeldOutput::require_same(folder.string());
    std::error_code failure;
    const fs::path parent = folder.parent_path();
    if (!parent.empty() && parent != folder && !fs::exists(HeldOutput::through(parent.string()), failure))
        make_folder(parent);
    fs::create_directory(HeldOutput::through(folder.string()), failure);
    if (failure) throw write_error("making the folder " + folder.string(), failure.value());
}

int lock_retried(int fd, int operation) {
    int result = 0;
    do result = ::flock(fd, operation);
    while (result != 0 && errno == EINTR);
    return result;
}

// Removes a temporary file whose writer's lock is gone.
bool remove_if_abandoned(const fs::path& path) {
    const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!file) {
        if (errno == ENOENT) return false;
        throw write_error("removing the leftover " + path.string(), errno);
    }
    if (lock_retried(file.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK)
            spdlog::warn("{} may be a leftover, but this file system has no locks to prove it", path.string());
        return false;
    }
    if (::unlink(path.c_str()) != 0 && errno != ENOENT)
        throw write_error("removing the leftover " + path.string(), errno);
    return true;
}

std::string way_out(int errno_value) {
    switch (errno_value) {
        case EROFS:
            return "That file system is mounted read-only: give an output on another one";
        case EACCES:
        case EPERM:
            return "Give an output that this user may write, or change its permissions";
        case ENOTDIR:
        case EEXIST:
        case EISDIR:
            return "There is a file in the place of a folder, or a folder in the place of a file: remove it, or give "
                   "another output";
        case ENOENT:
            return "Its folder was moved or removed: put it back. " + remedy(Remedy::RunAgain);
        case ENAMETOOLONG:
            return "The sample's key is too long for a file name there: shorten the input's file names";
        default:
            return way_to_write(errno_value, "Check the output folder and its file system");
    }
}

}  // namespace

AtomicFile::AtomicFile(std::string path, Durability durability, std::string_view what)
    : path_(std::move(path)),
      opened_path_(HeldOutput::through(path_)),
      named_(std::string(what) + path_),
      durability_(durability) {
    while (!try_open_temporary()) {
    }
}

// Returns false when another name must be tried: the file is a leftover of an earlier process with the same pid, or
// another process removed it as a leftover before it was locked.
bool AtomicFile::try_open_temporary() {
    const fs::path folder = fs::path(path_).parent_path();
    HeldOutput::require_same(folder.string());
    const std::string temporary = next_temporary(opened_path_);
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    UniqueFd file(::open(temporary.c_str(), flags, 0666));
    if (!file && errno == ENOENT) {
        make_folder(folder);
        HeldOutput::require_same(folder.string());
        file = UniqueFd(::open(temporary.c_str(), flags, 0666));
    }
    if (!file) {
        if (errno == EEXIST || errno == EINTR) return false;
        throw write_error("a temporary file for " + named_, errno);
    }
    // Accepts a file system without locks: its leftovers then stay.
    if (lock_retried(file.get(), LOCK_EX) == 0) {
        struct stat status {};
        if (::fstat(file.get(), &status) != 0) throw write_error("a temporary file for " + named_, errno);
        if (status.st_nlink == 0) return false;
    }
    file_.emplace(opened_path_, temporary, std::move(file),
                  [this](int problem) { return write_error(named_, problem); });
    return true;
}

void AtomicFile::write(std::span<const std::byte> bytes) {
    expect(file_.has_value(), "a committed file is not written to");
    file_->write(bytes);
}

void AtomicFile::set_size(std::uint64_t bytes) {
    expect(file_.has_value(), "a committed file keeps its length");
    file_->set_size(bytes);
}

// Flush the bytes before the rename: a name on the disk must not lead to a file without its bytes.
void AtomicFile::flush_bytes() {
    expect(file_.has_value(), "a file is committed once");
    if (durability_ == Durability::PowerCut) file_->flush();
}

void AtomicFile::flush_name() {
    if (durability_ == Durability::PowerCut) file_->flush_name();
    file_.reset();
}

void AtomicFile::commit() {
    flush_bytes();
    failpoint("sink.commit");
    file_->put_in_place();
    failpoint("sink.committed");
    flush_name();
}

void AtomicFile::commit_if_none() {
    flush_bytes();
    file_->put_in_place_if_none();
    flush_name();
}

void write_atomically(const std::string& path, std::span<const std::byte> bytes, Durability durability) {
    AtomicFile file(path, durability);
    file.write(bytes);
    file.commit();
}

void replace_file(const std::string& whole, const std::string& path) {
    failpoint("sink.replace");
    if (std::rename(HeldOutput::through(whole).c_str(), HeldOutput::through(path).c_str()) != 0)
        throw write_error(path, errno);
    failpoint("sink.replaced");
}

void flush_folder(const std::string& folder) {
    flush_names(HeldOutput::through(folder),
                [&folder](int problem) { return write_error("flushing the folder " + folder, problem); });
}

void make_folder_of_results(const std::string& folder) { make_folder(folder); }

void require_writable_folder(const std::string& folder) {
    make_folder(folder);
    AtomicFile probe(folder + "/probe");
    static constexpr std::byte kProbe[64]{};
    probe.write(kProbe);
}

std::size_t remove_stale_temporaries(const std::string& folder) {
    std::error_code failure;
    fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, failure);
    if (failure == std::errc::no_such_file_or_directory) return 0;
    std::size_t removed = 0;
    for (; !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
        if (!entry->path().filename().string().starts_with(temporary_prefix())) continue;
        std::error_code unknown;
        if (entry->symlink_status(unknown).type() == fs::file_type::regular && remove_if_abandoned(entry->path()))
            ++removed;
    }
    if (failure) throw write_error("looking for leftovers in " + folder, failure.value());
    return removed;
}

SystemError write_error(const std::string& tried, int errno_value) {
    return {"cannot write: " + tried, errno_value, way_out(errno_value), ErrorKind::CannotWrite};
}

}  // namespace offramp
