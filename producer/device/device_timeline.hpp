#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "producer/device/device.hpp"

namespace offramp {

// Puts what happened between two events of the device on the host's clock and records it
// (common/base/trace_recording.hpp). Does nothing while nothing is recorded. The two clocks are brought together where
// a recording begins, to some microseconds: an event's time is told in fewer digits the longer ago the other one was.
//
// Owns one event. Borrows: device; stream, which is nobody else's. Thread: any; align() one at a time, which uses the
// device. Blocks: align(), a moment. Errors: of align(), the device's; nothing is recorded then until the next one.
class DeviceTimeline {
  public:
    // Aligned where a recording is under way.
    DeviceTimeline(Device& device, Stream& stream);

    void align();
    // Both events have timing and were seen done. `lane` outlives the process's work.
    void add(const char* lane, std::uint64_t batch, Event& began, Event& ended) noexcept;

  private:
    struct Anchor {
        std::unique_ptr<Event> event;
        std::uint64_t at_ns = 0;
    };
    void anchor(std::optional<Anchor> one);
    std::uint64_t at(Event& event);

    Device& device_;
    Stream& stream_;
    std::mutex mutex_;  // of the next
    std::optional<Anchor> anchor_;
};

}  // namespace offramp
