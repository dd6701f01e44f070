#include "common/transport/listening_socket.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <limits>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/log.hpp"

namespace offramp {
namespace {

constexpr const char* kOneProducer =
    "A run directory has one producer: stop the other, or give this run another directory";
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

ServingLock::ServingLock(const std::string& run_dir)
    : fd_(UniqueFd(::open(run_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC))) {
    if (!fd_) throw SystemError("opening the run directory " + run_dir, errno, "It must exist and belong to this user");
    while (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno == EINTR) continue;
        if (errno == EWOULDBLOCK)
            throw SystemError("locking the run directory " + run_dir + ", which another process serves", EADDRINUSE,
                              kOneProducer, ErrorKind::RunInUse);
        throw SystemError("locking the run directory " + run_dir, errno, "It must be on a local file system");
    }
}

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

namespace {

// (uid_t)-1 means "no user" to the kernel.
constexpr PeerCredentials kUnknown{
    .pid = 0, .uid = std::numeric_limits<uid_t>::max(), .gid = std::numeric_limits<gid_t>::max()};

}  // namespace

PeerCredentials parse_peer_address(std::string_view text) {
    constexpr std::string_view kHost = "localhost";
    if (!text.starts_with(kHost)) return kUnknown;
    text.remove_prefix(kHost.size());
    std::array<std::uint32_t, 3> ids{};
    for (auto& id : ids) {
        if (!text.starts_with(':')) return kUnknown;
        text.remove_prefix(1);
        const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), id);
        if (problem != std::errc{}) return kUnknown;
        text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    }
    if (!text.empty() || ids[2] > std::numeric_limits<pid_t>::max()) return kUnknown;
    return {.pid = static_cast<pid_t>(ids[2]), .uid = ids[0], .gid = ids[1]};
}

namespace {

constexpr std::size_t kFewestConnections = 8;
constexpr std::size_t kMostConnections = 1024;
constexpr std::size_t kRefusalsALogLine = 1000;

// 0 if unknown: the other end has closed, or it is not a socket.
pid_t process_behind(int fd) {
    ucred peer{};
    socklen_t bytes = sizeof peer;
    return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 ? peer.pid : 0;
}

}  // namespace

bool ConnectionLimit::accepted(int fd) {
    const pid_t pid = process_behind(fd);
    std::unique_lock lock(mutex_);
    const auto of_this_process = std::ranges::count_if(pids_, [pid](const auto& entry) { return entry.second == pid; });
    if (static_cast<std::size_t>(of_this_process) < kMostOfOneProcess && pids_.size() < most_) {
        pids_[fd] = pid;
        return true;
    }
    const std::size_t refused = refused_++;
    const std::size_t all = pids_.size();
    lock.unlock();
    if (refused % kRefusalsALogLine == 0)
        spdlog::warn(
            "a connection of process {} was refused ({} so far): it has {} connections and all processes {}; the "
            "limits are {} and {}",
            pid, refused + 1, of_this_process, all, kMostOfOneProcess, most_);
    return false;
}

void ConnectionLimit::disconnected(int fd) {
    const std::lock_guard guard(mutex_);
    pids_.erase(fd);
}

std::size_t ConnectionLimit::connections() const {
    const std::lock_guard guard(mutex_);
    return pids_.size();
}

std::size_t ConnectionLimit::refused() const {
    const std::lock_guard guard(mutex_);
    return refused_;
}

std::size_t ConnectionLimit::most_by_descriptors() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kFewestConnections;
    return std::clamp<std::size_t>(limit.rlim_cur / 2, kFewestConnections, kMostConnections);
}

}  // namespace offramp
