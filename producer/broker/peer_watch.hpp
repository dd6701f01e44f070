#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>

#include "common/base/process_watch.hpp"

namespace offramp {

// The seam through which the broker learns of deaths, so that tests can kill a thread.
class PeerWatch {
  public:
    virtual ~PeerWatch() = default;
    // Nothing when the process has ended. Errors: SystemError when the system will not watch (no descriptors left).
    virtual std::optional<WatchedProcess> open(pid_t pid) = 0;
    // Sends SIGKILL to the process behind the pidfd. The process is dead when the pidfd is readable, not before. 0, or
    // the errno of the refusal.
    virtual int kill(int pidfd) = 0;
};

// Watches through pidfd_open(2).
class PidfdWatch final : public PeerWatch {
  public:
    std::optional<WatchedProcess> open(pid_t pid) override { return watch_process(static_cast<std::uint64_t>(pid)); }
    int kill(int pidfd) override {
        return ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0) == 0 ? 0 : errno;
    }
};

}  // namespace offramp
