#include "producer/device/device_timeline.hpp"

#include "common/base/clock.hpp"
#include "common/base/trace_recording.hpp"

namespace offramp {

DeviceTimeline::DeviceTimeline(Device& device, Stream& stream) : device_(device), stream_(stream) {
    if (recording()) align();
}

void DeviceTimeline::align() {
    const std::lock_guard lock(mutex_);
    if (!anchor_) anchor_ = device_.make_event(Device::Timing::On);
    // The first waits warm the path up; the last one's end is close to the event itself.
    for (int i = 0; i < 3; ++i) {
        stream_.synchronize();
        stream_.record(*anchor_);
        while (!anchor_->done()) {
        }
        anchor_ns_ = now_ns();
    }
}

void DeviceTimeline::add(const char* lane, std::uint64_t batch, Event& began, Event& ended) {
    if (!recording()) return;
    const std::lock_guard lock(mutex_);
    if (anchor_) record_device_range(lane, batch, at(began), at(ended));
}

std::uint64_t DeviceTimeline::at(Event& event) {
    const auto since_ns = static_cast<std::int64_t>(event.seconds_since(*anchor_) * 1e9);  // negative: before it
    return anchor_ns_ + static_cast<std::uint64_t>(since_ns);
}

}  // namespace offramp
