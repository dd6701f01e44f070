#include "common/transport/peer_connections.hpp"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>

#include "common/base/log.hpp"

namespace offramp {
namespace {

// (uid_t)-1 means "no user" to the kernel.
constexpr PeerCredentials kUnknown{
    .pid = 0, .uid = std::numeric_limits<uid_t>::max(), .gid = std::numeric_limits<gid_t>::max()};

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
