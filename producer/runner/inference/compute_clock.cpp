#include "producer/runner/inference/compute_clock.hpp"

#include <algorithm>

namespace offramp {

ComputeClock::ComputeClock(Device& device, DeviceTimeline& timeline, std::size_t depth, std::size_t every)
    : timeline_(timeline), every_(every), pairs_(depth / every) {
    for (Pair& pair : pairs_) pair = {device.make_event(Device::Timing::On), device.make_event(Device::Timing::On)};
}

void ComputeClock::begin(Stream& stream, std::uint64_t batch) {
    if (batches_ % every_ != 0) return;
    Pair& pair = pairs_[next_];
    close(pair);
    pair.batch = batch;
    pair.first = batches_;
    stream.record(*pair.begun);
}

void ComputeClock::end(Stream& stream) {
    if (batches_++ % every_ != 0) return;
    Pair& pair = pairs_[next_];
    stream.record(*pair.ended);
    pair.open = true;
    next_ = (next_ + 1) % pairs_.size();
}

void ComputeClock::settle() {
    for (Pair& pair : pairs_) close(pair);
    batches_ = 0;  // the next batch is always timed
}

ComputeTime ComputeClock::so_far() const {
    const std::lock_guard lock(mutex_);
    return so_far_;
}

void ComputeClock::close(Pair& pair) {
    if (!pair.open) return;
    pair.ended->wait();
    const std::uint64_t stands_for = std::min<std::uint64_t>(every_, batches_ - pair.first);
    {
        const double seconds = pair.ended->seconds_since(*pair.begun);
        const std::lock_guard lock(mutex_);
        so_far_.seconds += seconds * static_cast<double>(stands_for);
        so_far_.batches += stands_for;
        so_far_.times.add(static_cast<std::uint64_t>(seconds * 1e9), stands_for);
    }
    timeline_.add("compute", pair.batch, *pair.begun, *pair.ended);
    pair.open = false;
}

}  // namespace offramp
