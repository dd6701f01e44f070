#pragma once

#include <chrono>
#include <optional>

#include "common/base/clock.hpp"

namespace offramp {

// Polls for a lock that another process has: when to look next, and when it has been
// enough. Looks come after 0.1 ms at first and then after 1 ms, since what is waited for is a short transaction.
//
// The time between two looks counts for at most kLongestLook: in more than that this process was stopped (SIGSTOP, a
// machine that slept) or had no core, and perhaps so was the lock's holder. So a wait lasts for `patience` or, on such
// a machine, longer.
//
// Pure but for the clock, which it borrows. Thread: one.
class LockWait {
  public:
    static constexpr std::chrono::milliseconds kLongestLook{50};

    explicit LockWait(std::chrono::nanoseconds patience, const Clock& clock = kSteadyClock)
        : patience_(patience), clock_(&clock) {}

    // The next look is the first of another wait.
    void begin();
    // After a look that found the lock taken: how long to sleep until the next one; nothing when patience is at an end.
    std::optional<std::chrono::microseconds> next();

    std::chrono::nanoseconds patience() const { return patience_; }

  private:
    std::chrono::nanoseconds patience_;
    const Clock* clock_;
    std::chrono::nanoseconds lasted_{0};
    std::optional<TimePoint> last_look_;
    int looks_ = 0;
};

}  // namespace offramp
