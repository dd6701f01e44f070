#pragma once

#include <chrono>
#include <cstdint>

namespace offramp {

// The time for all decisions: monotonic, in nanoseconds since boot, equal in every process of the machine.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;

// The interface through which the broker reads time. Tests replace it to step visibility timeouts and back-offs instead
// of sleeping.
class Clock {
  public:
    virtual ~Clock() = default;
    virtual TimePoint now() const = 0;
};

// Reads CLOCK_MONOTONIC.
class SteadyClock final : public Clock {
  public:
    TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

inline const SteadyClock kSteadyClock{};

// Nanoseconds of CLOCK_MONOTONIC, the form of times in shared memory.
inline std::uint64_t to_ns(TimePoint time) { return static_cast<std::uint64_t>(time.time_since_epoch().count()); }
inline std::uint64_t now_ns() { return to_ns(std::chrono::steady_clock::now()); }

}  // namespace offramp
