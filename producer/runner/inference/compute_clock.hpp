#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "common/base/duration_histogram.hpp"
#include "producer/device/device.hpp"
#include "producer/device/device_timeline.hpp"

namespace offramp {

struct ComputeTime {
    double seconds = 0;         // device time
    std::uint64_t batches = 0;  // batches covered by it
    DurationHistogram times;    // one entry per batch
};

// Adds up a stream's time on batches, from pairs of events on the device. Of small batches only every n-th is timed,
// and represents those up to the next one. Borrows: device, timeline. Thread: begin() and end() from the stream's;
// so_far() from any. Blocks: begin() while a timed batch `depth` batches ago is unfinished; this also bounds how far
// the host runs ahead of the device.
class ComputeClock {
  public:
    // `depth` is a multiple of `every`.
    ComputeClock(Device& device, DeviceTimeline& timeline, std::size_t depth, std::size_t every);

    void begin(Stream& stream, std::uint64_t batch);
    void end(Stream& stream);
    // Waits for all batches begun, so that so_far() includes them.
    void settle();
    ComputeTime so_far() const;

  private:
    struct Pair {
        std::unique_ptr<Event> begun, ended;
        std::uint64_t batch = 0;
        std::uint64_t first = 0;  // batches_ at its beginning
        bool open = false;
    };
    void close(Pair& pair);

    DeviceTimeline& timeline_;
    const std::size_t every_;
    std::vector<Pair> pairs_;
    std::size_t next_ = 0;
    std::uint64_t batches_ = 0;  // since the start, or since the last settle()
    mutable std::mutex mutex_;   // guards so_far_
    ComputeTime so_far_;
};

}  // namespace offramp
