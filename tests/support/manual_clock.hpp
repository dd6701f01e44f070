#pragma once

#include "common/base/clock.hpp"

namespace offramp {

// Time that moves only when a test moves it.
class ManualClock final : public Clock {
  public:
    TimePoint now() const override { return now_; }
    void advance(std::chrono::nanoseconds by) { now_ += by; }

  private:
    TimePoint now_{std::chrono::seconds(1000)};
};

}  // namespace offramp
