#pragma once

#include <chrono>
#include <random>

namespace offramp {

// How long to wait before something is tried again: doubles from 100 ms to 5 s, and of each a random part, between half
// and all, so that consumers that failed together do not come back together. Pure but for its random numbers. Thread:
// one.
class RetryDelay {
  public:
    explicit RetryDelay(std::uint32_t seed) : random_(seed) {}

    // The next one.
    std::chrono::milliseconds next();
    // After a success.
    void reset() { tries_ = 0; }

  private:
    std::minstd_rand random_;
    unsigned tries_ = 0;
};

}  // namespace offramp
