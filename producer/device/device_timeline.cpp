#include "producer/device/device_timeline.hpp"

#include <exception>
#include <utility>

#include "common/base/clock.hpp"
#include "common/base/trace.hpp"

namespace offramp {
namespace {

// The event is between two reads of the host's clock. The first tries warm up the path; a busy device delays some.
constexpr int kTries = 8;

}  // namespace

DeviceTimeline::DeviceTimeline(Device& device, Stream& stream) : device_(device), stream_(stream) {
    if (recording()) align();
}

void DeviceTimeline::align() {
    anchor({});  // an old anchor loses precision; after a failure here there is none
    std::optional<Anchor> tightest;
    std::uint64_t least_ns = 0;
    stream_.synchronize();
    for (int i = 0; i < kTries; ++i) {
        auto event = device_.make_event(Device::Timing::On);
        const std::uint64_t before_ns = now_ns();
        stream_.record(*event);
        while (!event->done()) {
        }
        const std::uint64_t length_ns = now_ns() - before_ns;
        if (tightest && length_ns >= least_ns) continue;
        least_ns = length_ns;
        tightest = Anchor{std::move(event), before_ns + length_ns / 2};
    }
    anchor(std::move(tightest));
}

// Destroys the previous anchor after the lock.
void DeviceTimeline::anchor(std::optional<Anchor> one) {
    const std::lock_guard lock(mutex_);
    anchor_.swap(one);
}

void DeviceTimeline::add(const char* lane, std::uint64_t batch, Event& began, Event& ended) noexcept {
    if (!recording()) return;
    try {
        const std::lock_guard lock(mutex_);
        if (anchor_) record_device_range(lane, batch, at(began), at(ended));
    } catch (const std::exception&) {
        return;  // the owner of these events queries them next, and reports the error
    }
}

std::uint64_t DeviceTimeline::at(Event& event) {
    // negative: before the anchor
    const auto since_ns = static_cast<std::int64_t>(event.seconds_since(*anchor_->event) * 1e9);
    return anchor_->at_ns + static_cast<std::uint64_t>(since_ns);
}

}  // namespace offramp
