#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "producer/device/device.hpp"

namespace offramp {

// Puts what happened between two events of the device on the host's clock and records it
// (common/base/trace_recording.hpp). Does nothing while nothing is recorded. The two clocks are brought together once,
// to about 20 µs. Owns one event. Borrows: device. Thread: any. Blocks: the constructor, a moment.
class DeviceTimeline {
  public:
    DeviceTimeline(Device& device, Stream& stream);

    // Both events have timing and were seen done. `lane` outlives the process's work.
    void add(const char* lane, std::uint64_t batch, Event& began, Event& ended);

  private:
    std::uint64_t at(Event& event);

    std::mutex mutex_;
    std::unique_ptr<Event> anchor_;
    std::uint64_t anchor_ns_ = 0;
};

}  // namespace offramp
