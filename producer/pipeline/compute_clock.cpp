#include "producer/pipeline/compute_clock.hpp"

namespace offramp {

ComputeClock::ComputeClock(Device& device, std::size_t depth) : pairs_(depth) {
    for (Pair& pair : pairs_)
        pair = {device.make_event(Device::Timing::On), device.make_event(Device::Timing::On)};
}

void ComputeClock::begin(Stream& stream) {
    Pair& pair = pairs_[next_];
    close(pair);
    stream.record(*pair.begun);
}

void ComputeClock::end(Stream& stream) {
    Pair& pair = pairs_[next_];
    stream.record(*pair.ended);
    pair.open = true;
    next_ = (next_ + 1) % pairs_.size();
}

void ComputeClock::settle() {
    for (Pair& pair : pairs_) close(pair);
}

void ComputeClock::close(Pair& pair) {
    if (!pair.open) return;
    pair.ended->wait();
    busy_ns_ += static_cast<std::uint64_t>(pair.ended->seconds_since(*pair.begun) * 1e9);
    pair.open = false;
}

}  // namespace offramp
