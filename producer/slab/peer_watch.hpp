#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "common/base/process_watch.hpp"

namespace offramp {

// The seam through which the broker learns of deaths, so that tests can kill a thread.
class PeerWatch {
 public:
    virtual ~PeerWatch() = default;
    // Nothing when there is no such process any more. Errors: SystemError when the system will not watch (no descriptors left).
    virtual std::optional<WatchedProcess> open(pid_t pid) = 0;
};

// Watches through pidfd_open(2).
class PidfdWatch final : public PeerWatch {
 public:
    std::optional<WatchedProcess> open(pid_t pid) override { return watch_process(static_cast<std::uint64_t>(pid)); }
};

}  // namespace offramp
