#include "common/shm/run_lock_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <thread>

#include "common/base/error.hpp"
#include "common/base/remedy.hpp"

namespace offramp {
namespace {

constexpr std::chrono::milliseconds kTurnLookEvery{5};

std::string path_of(const RunNames& names) { return "/dev/shm" + names.lock(); }

}  // namespace

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
