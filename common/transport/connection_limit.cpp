#include "common/transport/connection_limit.hpp"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>

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
