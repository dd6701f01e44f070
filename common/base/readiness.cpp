#include "common/base/readiness.hpp"

#include <poll.h>

#include <vector>

namespace offramp {
namespace {

bool has_event(int fd, int wanted, int seen) {
    pollfd entry{fd, static_cast<short>(wanted), 0};
    return fd >= 0 && ::poll(&entry, 1, 0) == 1 && (entry.revents & seen) != 0;
}

}  // namespace

bool has_input(int fd) { return has_event(fd, POLLIN, POLLIN | POLLHUP); }

bool hung_up(int fd) { return has_event(fd, POLLIN | POLLRDHUP, POLLHUP | POLLRDHUP | POLLERR | POLLNVAL); }

void wait_readable(std::span<const int> fds, std::chrono::nanoseconds timeout) {
    std::vector<pollfd> entries;
    for (const int fd : fds) entries.push_back({fd, POLLIN, 0});
    ::poll(entries.data(), entries.size(),
           static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(timeout).count()));
}

}  // namespace offramp
