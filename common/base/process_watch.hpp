#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

#include "common/base/unique_fd.hpp"

// Asks the kernel whether another process is alive. `kill(pid, 0)` and time-outs do not prove death; a readable pidfd
// does. Pids have the type of pids in shared memory and messages. A pid that no process can have counts as dead.
// Thread: any. Blocks: never.
namespace offramp {

// A process under watch: `died` becomes readable when, and only when, the process is dead and its mappings are gone.
struct WatchedProcess {
    UniqueFd died;
    std::uint64_t start_time = 0;  // detects a reused pid; 0 if the process died during the check
};

// Opens a pidfd. Returns nothing if the process no longer exists; a zombie exists, and is dead. Errors: SystemError if
// the process cannot be watched (another pid namespace, no descriptors left).
std::optional<WatchedProcess> watch_process(std::uint64_t pid);
// The same for a known process: also returns nothing if it is dead, or its pid was reused.
std::optional<WatchedProcess> watch_process(std::uint64_t pid, std::uint64_t start_time);

// Field 22 of /proc/PID/stat, in clock ticks since boot; nothing if the process does not exist.
std::optional<std::uint64_t> process_start_time(std::uint64_t pid);

// True if a process with this pid is alive now; it may be another process with a reused pid.
bool process_exists(std::uint64_t pid);

// True if the descriptor is readable, or is a hung-up pipe. Never blocks; false for -1.
bool has_input(int fd);
// True if the other end of a pipe or socket is closed, or the descriptor is invalid. Never blocks; false for -1.
bool hung_up(int fd);
// Returns when a descriptor is readable or hung up, or after `timeout`; may return early.
void wait_readable(std::span<const int> fds, std::chrono::nanoseconds timeout);

}  // namespace offramp
