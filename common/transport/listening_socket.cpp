#include "common/transport/listening_socket.hpp"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr mode_t kOwnerOnly = 0600;
constexpr mode_t kOwnerAndGroup = 0660;

void remove_dead_socket(const std::string& path) {
    struct stat found = {};
    if (::lstat(path.c_str(), &found) != 0) {
        if (errno == ENOENT) return;
        throw SystemError("looking for a socket at " + path, errno);
    }
    if (!S_ISSOCK(found.st_mode))
        throw SystemError("binding a socket to " + path + ", where another kind of file is", EEXIST,
                          "Remove it, or give the run another directory");
    if (found.st_uid != ::geteuid())
        throw SystemError(
            "binding a socket to " + path + ", where a socket of user id " + std::to_string(found.st_uid) + " is",
            EEXIST, "Give the run another directory", ErrorKind::NotPermitted);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw SystemError("removing the dead socket " + path, errno);
}

}  // namespace

BoundSocketPath::BoundSocketPath(int fd, std::string path, bool group_may_connect) : path_(std::move(path)) {
    remove_dead_socket(path_);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    expect(path_.size() < sizeof address.sun_path, "check_run_dir() was asked before a socket's path is used");
    path_.copy(address.sun_path, path_.size());
    // The file gets the socket's mode minus the umask, so that no other user can connect at any time.
    if (::fchmod(fd, kOwnerOnly) != 0 || ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        throw SystemError("binding a socket to " + path_, errno);
    struct stat bound = {};
    if (::lstat(path_.c_str(), &bound) != 0) throw SystemError("looking at the socket just bound to " + path_, errno);
    if (!S_ISSOCK(bound.st_mode) || bound.st_uid != ::geteuid())
        throw SystemError("binding " + path_ + ", which was taken over immediately", EEXIST,
                          "Only its owner may write to the run directory (mode 0700)");
    device_ = bound.st_dev;
    inode_ = bound.st_ino;
    if (::chmod(path_.c_str(), group_may_connect ? kOwnerAndGroup : kOwnerOnly) != 0 || ::listen(fd, SOMAXCONN) != 0) {
        const int problem = errno;
        ::unlink(path_.c_str());
        throw SystemError("listening at " + path_, problem);
    }
}

BoundSocketPath::~BoundSocketPath() {
    if (still_ours()) ::unlink(path_.c_str());
}

bool BoundSocketPath::still_ours() const noexcept {
    struct stat now = {};
    return ::lstat(path_.c_str(), &now) == 0 && now.st_dev == device_ && now.st_ino == inode_;
}

void BoundSocketPath::require_still_ours() const {
    if (still_ours()) return;
    throw SystemError(
        "serving the socket " + path_ + ", which was taken over or removed", ESTALE,
        "New consumers cannot reach this producer any more: only its owner may write to the run directory");
}

}  // namespace offramp
