#include "common/base/files.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "common/base/unique_fd.hpp"

namespace offramp {
namespace {

constexpr std::size_t kMostAtOnce = std::size_t{64} << 20;
constexpr std::size_t kMostFolders = std::size_t{1} << 17;

// Always creates a new file. An existing file, left by a dead writer or owned by another user of a shared folder, is
// neither written nor waited for.
UniqueFd make_temporary(const std::string& path, mode_t mode) {
    ::unlink(path.c_str());
    return UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, mode));
}

constexpr int kFolder = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

// EINVAL: the file system cannot flush a folder, and there is no alternative.
bool is_flushed(const UniqueFd& folder) { return ::fsync(folder.get()) == 0 || errno == EINVAL; }

// False at the root of a file system.
bool is_inside(const UniqueFd& inner, const UniqueFd& outer) {
    struct stat in {
    }, out{};
    return ::fstat(inner.get(), &in) == 0 && ::fstat(outer.get(), &out) == 0 && in.st_dev == out.st_dev &&
           in.st_ino != out.st_ino;
}

// Folders whose own names are on the disk, up to the root of the file system. Thread: any.
class FlushedFolders {
  public:
    using Identity = std::pair<dev_t, ino_t>;

    std::optional<Identity> unknown(const UniqueFd& folder) {
        struct stat status {};
        if (::fstat(folder.get(), &status) != 0) return std::nullopt;
        const Identity identity{status.st_dev, status.st_ino};
        const std::lock_guard lock(mutex_);
        return known_.contains(identity) ? std::nullopt : std::optional(identity);
    }
    void add(const std::vector<Identity>& folders) {
        const std::lock_guard lock(mutex_);
        if (known_.size() >= kMostFolders) known_.clear();
        known_.insert(folders.begin(), folders.end());
    }

  private:
    std::mutex mutex_;
    std::set<Identity> known_;
};

FlushedFolders& flushed_folders() {
    static FlushedFolders folders;
    return folders;
}

[[noreturn]] void refuse(const char* what, int errno_value) {
    throw Error(ErrorKind::NoInput, std::string(what) + ": " + std::strerror(errno_value));
}

}  // namespace

void write_all(int fd, std::span<const std::byte> bytes, const WriteFailure& failure) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(fd, bytes.data(), std::min(bytes.size(), kMostAtOnce));
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) throw failure(errno);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
}

WholeFile::WholeFile(std::string path, mode_t mode, WriteFailure failure)
    : path_(std::move(path)),
      temporary_(path_ + ".new"),
      failure_(std::move(failure)),
      file_(make_temporary(temporary_, mode)) {
    if (!file_) throw failure_(errno);
}

WholeFile WholeFile::among_others(std::string path, mode_t mode, WriteFailure failure) {
    std::random_device random;
    std::string temporary = path + "." + std::to_string(::getpid()) + "-" + std::to_string(random()) + "-" +
                            std::to_string(random()) + ".new";
    UniqueFd file = make_temporary(temporary, mode);
    if (!file) throw failure(errno);
    return {std::move(path), std::move(temporary), std::move(file), std::move(failure)};
}

WholeFile::WholeFile(std::string path, std::string temporary, UniqueFd file, WriteFailure failure)
    : path_(std::move(path)), temporary_(std::move(temporary)), failure_(std::move(failure)), file_(std::move(file)) {}

WholeFile::~WholeFile() {
    if (file_) ::unlink(temporary_.c_str());
}

void WholeFile::set_mode(mode_t mode) {
    if (::fchmod(file_.get(), mode) != 0) throw failure_(errno);
}

void WholeFile::write(std::span<const std::byte> bytes) { write_all(file_.get(), bytes, failure_); }

void WholeFile::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void WholeFile::set_size(std::uint64_t bytes) {
    if (::ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0) throw failure_(errno);
}

void WholeFile::flush() {
    if (::fsync(file_.get()) != 0) throw failure_(errno);
}

// A network file system may report a full disk only when a descriptor is closed. So a duplicate is closed before the
// file gets its name.
void WholeFile::ask_for_late_errors() {
    const int another = ::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0);
    if (another < 0 || (::close(another) != 0 && errno != EINTR)) throw failure_(errno);
}

UniqueFd WholeFile::put_in_place() {
    ask_for_late_errors();
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) throw failure_(errno);
    return std::move(file_);
}

// Links the file by its descriptor, independent of its temporary name.
bool WholeFile::put_in_place_if_none() {
    ask_for_late_errors();
    const std::string self = "/proc/self/fd/" + std::to_string(file_.get());
    const bool is_there = ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW) == 0;
    if (!is_there && errno != EEXIST) throw failure_(errno);
    ::unlink(temporary_.c_str());
    file_.reset();
    return is_there;
}

void WholeFile::flush_name() { flush_names(std::filesystem::path(path_).parent_path().string(), failure_); }

void flush_names(const std::string& folder, const WriteFailure& failure) {
    UniqueFd inner(::open(folder.empty() ? "." : folder.c_str(), kFolder));
    if (!inner || !is_flushed(inner)) throw failure(errno);
    // Another process may have made a folder above, and died before it flushed that name.
    std::vector<FlushedFolders::Identity> flushed;
    while (const auto unflushed = flushed_folders().unknown(inner)) {
        UniqueFd outer(::openat(inner.get(), "..", kFolder));
        if (!outer && errno != EACCES && errno != EPERM) throw failure(errno);
        if (!outer || !is_inside(inner, outer)) break;
        if (!is_flushed(outer) && errno != EROFS) throw failure(errno);
        flushed.push_back(*unflushed);
        inner = std::move(outer);
    }
    flushed_folders().add(flushed);
}

RegularFile::RegularFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    const int open_errno = errno;
    struct stat status {};
    // the file's type is more helpful than the error of open()
    if ((fd_ ? ::fstat(fd_.get(), &status) : ::stat(path.c_str(), &status)) == 0) {
        if (S_ISDIR(status.st_mode) && !fd_) refuse("a folder that cannot be listed", open_errno);
        if (S_ISDIR(status.st_mode)) throw Error(ErrorKind::BadInput, "a folder, not a file");
        if (!S_ISREG(status.st_mode)) throw Error(ErrorKind::BadInput, "not a regular file");
    }
    if (!fd_) refuse("cannot be opened", open_errno);
    size_ = static_cast<std::uint64_t>(status.st_size);
}

std::size_t RegularFile::read_at(std::uint64_t offset, std::span<std::byte> to) const {
    std::size_t done = 0;
    while (done < to.size()) {
        const ssize_t got = ::pread(fd_.get(), to.data() + done, to.size() - done, static_cast<off_t>(offset + done));
        if (got < 0 && errno != EINTR) refuse("cannot be read", errno);
        if (got == 0) break;
        if (got > 0) done += static_cast<std::size_t>(got);
    }
    return done;
}

MappedFile::MappedFile(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) != 0) throw SystemError("opening " + path, errno);
    if (status.st_size == 0) return;
    const auto bytes = static_cast<std::size_t>(status.st_size);
    void* mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (mapped == MAP_FAILED) throw SystemError("mapping " + path + ", " + std::to_string(bytes) + " bytes", errno);
    bytes_ = {static_cast<const std::byte*>(mapped), bytes};
}

MappedFile::~MappedFile() {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace offramp
