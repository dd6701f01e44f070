#include "common/base/process_watch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t kMostPid = std::numeric_limits<pid_t>::max();
constexpr std::size_t kMostOfALine = 4096;  // about fifty numbers, and a name of at most 64 bytes

UniqueFd open_pidfd(std::uint64_t pid) {
    if (pid == 0 || pid > kMostPid) {
        errno = ESRCH;
        return {};
    }
    return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)));
}

bool has_event(int fd, int wanted, int seen) {
    pollfd entry{fd, static_cast<short>(wanted), 0};
    return fd >= 0 && ::poll(&entry, 1, 0) == 1 && (entry.revents & seen) != 0;
}

}  // namespace

std::optional<WatchedProcess> watch_process(std::uint64_t pid) {
    UniqueFd pidfd = open_pidfd(pid);
    if (!pidfd) {
        if (errno == ESRCH) return std::nullopt;
        throw SystemError("pidfd_open of process " + std::to_string(pid), errno,
                          "Linux 5.3 or later, and enough open files (ulimit -n), are needed");
    }
    // Read the start time after opening the pidfd: if the process is the right one now, so is the pidfd's.
    return WatchedProcess{std::move(pidfd), process_start_time(pid).value_or(0)};
}

std::optional<WatchedProcess> watch_process(std::uint64_t pid, std::uint64_t start_time) {
    auto watched = watch_process(pid);
    if (!watched || watched->start_time != start_time || has_input(watched->died.get())) return std::nullopt;
    return watched;
}

std::optional<std::uint64_t> process_start_time(std::uint64_t pid) {
    const std::string file = "/proc/" + std::to_string(pid) + "/stat";
    const UniqueFd stat(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!stat) {
        if (errno == ENOENT || errno == ESRCH) return std::nullopt;
        throw SystemError("opening " + file, errno);
    }
    std::string line(kMostOfALine, '\0');
    const ssize_t got = ::read(stat.get(), line.data(), line.size());
    line.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));  // the process ended meanwhile
    // The second field is the program's name in parentheses, and may itself hold spaces and parentheses.
    std::size_t at = line.rfind(')');
    if (at == std::string::npos) return std::nullopt;
    for (int field = 2; field < 22; ++field) {
        at = line.find(' ', at + 1);
        if (at == std::string::npos) return std::nullopt;
    }
    std::uint64_t start_time = 0;
    const auto parsed = std::from_chars(line.data() + at + 1, line.data() + line.size(), start_time);
    if (parsed.ec != std::errc{}) return std::nullopt;
    return start_time;
}

bool process_exists(std::uint64_t pid) {
    const UniqueFd pidfd = open_pidfd(pid);
    return pidfd ? !has_input(pidfd.get()) : errno != ESRCH;
}

bool has_input(int fd) { return has_event(fd, POLLIN, POLLIN | POLLHUP); }

bool hung_up(int fd) { return has_event(fd, POLLIN | POLLRDHUP, POLLHUP | POLLRDHUP | POLLERR | POLLNVAL); }

void wait_readable(std::span<const int> fds, std::chrono::nanoseconds timeout) {
    std::vector<pollfd> entries;
    for (const int fd : fds) entries.push_back({fd, POLLIN, 0});
    ::poll(entries.data(), entries.size(),
           static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(timeout).count()));
}

}  // namespace offramp
