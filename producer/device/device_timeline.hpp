#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "producer/device/device.hpp"

namespace offramp {

// Converts intervals between two events of the device to the host's clock and records them
// (common/base/trace.hpp). Does nothing while no recording runs. The clocks are aligned when a recording
// begins, to some microseconds: an event's time loses precision with the age of the alignment.
//
// Owns one event. Borrows: device; stream, which has no other user. Thread: any; align() one at a time, which uses the
// device. Blocks: align(), a moment. Errors: of align(), the device's; nothing is then recorded until the next one.
class DeviceTimeline {
  public:
    // Aligns immediately if a recording is under way.
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
    std::mutex mutex_;  // guards the next
    std::optional<Anchor> anchor_;
};

}  // namespace offramp
