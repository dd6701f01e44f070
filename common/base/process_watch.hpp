#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>

#include "common/base/unique_fd.hpp"

// The kernel's knowledge of another process's life. `kill(pid, 0)` and time-outs do not prove death: a pidfd's
// readiness is. Pids have the form that they have in shared memory and in messages; one that no process can have is
// that of a dead process. Thread: any. Blocks: never.
namespace offramp {

// A process under watch: `died` becomes readable when, and only when, the process is dead and its mappings are gone.
struct WatchedProcess {
    UniqueFd died;
    std::uint64_t start_time = 0;  // reveals a reused pid; 0 if the process died during the check
};

// Opens a pidfd. Nothing if the process does not exist any more; a zombie exists, and is dead. Errors: SystemError when
// the system will not watch (another pid namespace, no descriptors left).
std::optional<WatchedProcess> watch_process(std::uint64_t pid);
// The same for one known process: also nothing when it is dead, or the pid is another's by now.
std::optional<WatchedProcess> watch_process(std::uint64_t pid, std::uint64_t start_time);

// Field 22 of /proc/PID/stat, in clock ticks since boot; nothing if the process does not exist.
std::optional<std::uint64_t> process_start_time(std::uint64_t pid);

// Whether this process lives now, though it may be another of the same number.
bool process_exists(std::uint64_t pid);

// Readable, or for a pipe hung up. Never blocks; false for -1.
bool has_input(int fd);
// The other end of a pipe or socket is gone, or the descriptor is none. Never blocks; false for -1.
bool hung_up(int fd);
// Returns when one of them is readable or hung up, or the time is up; may return early.
void wait_readable(std::span<const int> fds, std::chrono::nanoseconds timeout);

}  // namespace offramp
