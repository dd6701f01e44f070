#pragma once

#include <chrono>
#include <cstdint>

#include "common/base/clock.hpp"

namespace offramp {

// Sums the time that threads were blocked at one place. Includes current waits, so that a stuck stage is visible while
// it is stuck. Thread: under its owner's lock. Units: thread-seconds.
class BlockedTime {
  public:
    void begin(TimePoint now) {
        advance(now);
        ++waiting_;
    }
    void end(TimePoint now) {
        advance(now);
        --waiting_;
    }
    double seconds(TimePoint now) const {
        return std::chrono::duration<double>(total_ + waiting_ * (now - as_of_)).count();
    }
    std::int64_t waiting() const { return waiting_; }

  private:
    void advance(TimePoint now) {
        total_ += waiting_ * (now - as_of_);
        as_of_ = now;
    }

    std::int64_t waiting_ = 0;
    TimePoint as_of_{};
    std::chrono::nanoseconds total_{0};  // up to as_of_
};

// Waits on `changed` until `ready` holds, and books the wait unless `ready` already holds.
template <typename Condition, typename Lock, typename Ready>
void wait_booked(Condition& changed, Lock& lock, BlockedTime& blocked, const Clock& clock, Ready ready) {
    if (ready()) return;
    blocked.begin(clock.now());
    changed.wait(lock, ready);
    blocked.end(clock.now());
}

// The same, until `until` at most. Returns false if `ready` does not hold then.
template <typename Condition, typename Lock, typename Ready>
bool wait_booked_until(Condition& changed, Lock& lock, TimePoint until, BlockedTime& blocked, const Clock& clock,
                       Ready ready) {
    if (ready()) return true;
    blocked.begin(clock.now());
    const bool in_time = changed.wait_until(lock, until, ready);
    blocked.end(clock.now());
    return in_time;
}

}  // namespace offramp
