#include "common/transport/connection_limit.hpp"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "common/base/error.hpp"
#include "common/base/log.hpp"

namespace offramp {
namespace {

constexpr std::size_t kFewestConnections = 8;
constexpr std::size_t kMostConnections = 1024;
constexpr std::size_t kRefusalsALogLine = 1000;

// 0 when it is known no more: the other end has gone, or it is not a socket.
pid_t process_behind(int fd) {
    ucred peer{};
    socklen_t bytes = sizeof peer;
    return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 ? peer.pid : 0;
}

}  // namespace

bool ConnectionLimit::accepted(int fd) {
    const pid_t pid = process_behind(fd);
    pids_[fd] = pid;  // whoever had this descriptor before has closed it
    const auto of_this_process =
        std::count_if(pids_.begin(), pids_.end(), [pid](const auto& entry) { return entry.second == pid; });
    if (static_cast<std::size_t>(of_this_process) <= kMostOfOneProcess && pids_.size() <= most_) return true;
    ::shutdown(fd, SHUT_RDWR);
    if (refused_++ % kRefusalsALogLine == 0)
        spdlog::warn(
            "a connection of process {} was refused ({} so far): it has {}, all have {}, at most {} and {} are allowed",
            pid, refused_, of_this_process, pids_.size(), kMostOfOneProcess, most_);
    return false;
}

void ConnectionLimit::disconnected(int fd) { pids_.erase(fd); }

std::size_t ConnectionLimit::most_by_descriptors() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kFewestConnections;
    return std::clamp<std::size_t>(limit.rlim_cur / 2, kFewestConnections, kMostConnections);
}

void require_free_descriptors(std::size_t needed, const std::string& what) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    std::size_t used = 0;
    const std::unique_ptr<DIR, int (*)(DIR*)> open_now(::opendir("/proc/self/fd"), &::closedir);
    while (open_now && ::readdir(open_now.get()) != nullptr) ++used;
    const std::size_t free = !open_now || used >= limit.rlim_cur ? 0 : limit.rlim_cur - used;
    if (free < needed)
        throw SystemError(what + ": " + std::to_string(free) + " of " + std::to_string(limit.rlim_cur) +
                              " files may still be opened, " + std::to_string(needed) + " are needed",
                          EMFILE, "Raise the limit: ulimit -n 4096, or LimitNOFILE=4096 of a systemd unit");
}

}  // namespace offramp
