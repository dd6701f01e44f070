#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "producer/device/device.hpp"

namespace offramp {

// An event of the CPU backend. Recordings are numbered; done means that the stream has passed the latest one.
class CpuEvent final : public Event {
  public:
    explicit CpuEvent(Device::Timing timing) : timed_(timing == Device::Timing::On) {}

    bool armed() const override;
    bool done() override;
    void wait() override;
    double seconds_since(Event& earlier) override;

    // Shared with the streams that have queued it: like CUDA's, an event may be destroyed before its recording is
    // reached.
    struct Progress {
        std::mutex mutex;
        std::condition_variable changed;
        std::uint64_t recorded = 0;
        std::uint64_t reached = 0;
        std::chrono::steady_clock::time_point reached_at;

        std::uint64_t begin_recording();
        std::uint64_t latest_recording();
        void reach(std::uint64_t recording);
        void wait_until_reached(std::uint64_t recording);
    };
    const std::shared_ptr<Progress>& progress() const { return progress_; }

    // Broken contract when `event` is of another device.
    static CpuEvent& of(Event& event);

  private:
    std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
    bool timed_;
};

}  // namespace offramp
