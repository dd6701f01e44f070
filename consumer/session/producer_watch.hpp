#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "common/base/unique_fd.hpp"

namespace offramp {

// Watches the producer's life through a pidfd, which becomes readable when, and only when, the process is
// dead. A pid that was taken over by another process is told by its start time.
//
// Owns: the pidfd. Thread: any. Blocks: never.
class ProducerWatch {
  public:
    // `start_time`: field 22 of /proc/PID/stat, as the producer wrote it into the ledger. Nothing when that
    // process is dead. Errors: SystemError when the system will not watch it (another user's process, no
    // descriptors left).
    static std::optional<ProducerWatch> open(std::uint64_t pid, std::uint64_t start_time);

    int fd() const { return pidfd_.get(); }

  private:
    explicit ProducerWatch(UniqueFd pidfd) : pidfd_(std::move(pidfd)) {}
    UniqueFd pidfd_;
};

// Field 22 of /proc/PID/stat, in clock ticks since boot; nothing when there is no such process.
std::optional<std::uint64_t> process_start_time(std::uint64_t pid);

// Whether this process exists now, though it may be another of the same number.
bool process_exists(std::uint64_t pid);

}  // namespace offramp
