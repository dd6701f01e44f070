#include "producer/slab/peer_watch.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>

#include "common/base/error.hpp"

namespace offramp {

std::uint64_t start_time_of(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    std::getline(file, line);
    // The second field is the program's name in parentheses and may hold anything; counting starts behind it.
    const auto name_end = line.rfind(')');
    if (name_end == std::string::npos) return 0;
    std::istringstream fields(line.substr(name_end + 1));
    std::string field;
    for (int index = 3; index <= 22; ++index) fields >> field;
    return field.empty() ? 0 : std::stoull(field);
}

std::optional<WatchedPeer> PidfdWatch::open(pid_t pid) {
    UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!fd) {
        if (errno == ESRCH) return std::nullopt;
        throw SystemError("pidfd_open of process " + std::to_string(pid), errno,
                          "Linux 5.3 or later, and enough open files (ulimit -n), are needed");
    }
    return WatchedPeer{std::move(fd), start_time_of(pid)};
}

bool readable_now(int fd) {
    pollfd entry{fd, POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1 && (entry.revents & (POLLIN | POLLHUP)) != 0;
}

}  // namespace offramp
