#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>

#include "common/base/unique_fd.hpp"

namespace offramp {

// A process under watch: `died` becomes readable when, and only when, the process is dead and its mappings are gone.
struct WatchedPeer {
    UniqueFd died;
    std::uint64_t start_time = 0;   // field 22 of /proc/PID/stat; tells a reused pid
};

// The seam through which the broker learns of deaths, so that tests can kill a thread.
class PeerWatch {
 public:
    virtual ~PeerWatch() = default;
    // Nothing when there is no such process any more. Errors: SystemError when the system will not watch (no descriptors left).
    virtual std::optional<WatchedPeer> open(pid_t pid) = 0;
    // Sends SIGKILL to the process behind the pidfd; it is dead when that is readable, not before. 0, or the errno of the refusal.
    virtual int kill(int pidfd) = 0;
};

// Watches through pidfd_open(2).
class PidfdWatch final : public PeerWatch {
 public:
    std::optional<WatchedPeer> open(pid_t pid) override;
    int kill(int pidfd) override {
        return ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0) == 0 ? 0 : errno;
    }
};

// True when the descriptor is readable now.
bool readable_now(int fd);

// Field 22 of /proc/PID/stat, in clock ticks since boot; 0 when there is no such process.
std::uint64_t start_time_of(pid_t pid);

}  // namespace offramp
