#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "producer/device/device.hpp"

namespace offramp {

// Puts what happened between two events of the device on the host's clock and records it
// (common/base/trace_recording.hpp). Does nothing while nothing is recorded. The two clocks are brought together where
// a recording begins, to about 20 µs: an event's time is told in fewer digits the longer ago the other one was.
//
// Owns one event. Borrows: device; stream, which is nobody else's. Thread: any; align() one that uses the device.
// Blocks: align(), a moment, and add() meanwhile.
class DeviceTimeline {
  public:
    // Aligned where a recording is under way.
    DeviceTimeline(Device& device, Stream& stream);

    void align();
    // Both events have timing and were seen done. `lane` outlives the process's work.
    void add(const char* lane, std::uint64_t batch, Event& began, Event& ended);

  private:
    std::uint64_t at(Event& event);

    Device& device_;
    Stream& stream_;
    std::mutex mutex_;  // of the next two
    std::unique_ptr<Event> anchor_;
    std::uint64_t anchor_ns_ = 0;
};

}  // namespace offramp
