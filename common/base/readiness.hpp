#pragma once

#include <chrono>
#include <span>

namespace offramp {

// Readable, or for a pipe hung up. Never blocks; false for -1.
bool has_input(int fd);
// The other end of a pipe or socket is gone, or the descriptor is none. Never blocks; false for -1.
bool hung_up(int fd);
// Returns when one of them is readable or hung up, or the time is up; may return early.
void wait_readable(std::span<const int> fds, std::chrono::nanoseconds timeout);

}  // namespace offramp
