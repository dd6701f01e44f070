#include "producer/device/page_locking.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/base/error.hpp"

namespace offramp {

void expect_pinnable(std::span<std::byte> range) {
    expect(!range.empty(), "a range to page-lock is not empty");
    expect(range.size() <= kMaxRegistrationBytes, "at most 64 GiB are page-locked by one call");
}

double timed_copy_into(Device& device, std::span<std::byte> range) {
    expect(!range.empty(), "a range to prove is not empty");
    const std::size_t bytes = std::min(range.size(), kProofBytes);
    const std::unique_ptr<DeviceBuffer> source = device.allocate(bytes, "the proof of page-locking");
    const std::unique_ptr<Event> start = device.make_event(Device::Timing::On);
    const std::unique_ptr<Event> end = device.make_event(Device::Timing::On);
    const std::unique_ptr<Stream> stream = device.make_stream("prove pinned");
    // Write it once: reading memory that was never written copies one shared page of zeroes on the CPU, and is an error
    // to sanitizers.
    stream->copy_to_device(source->data(), range.data(), bytes);
    stream->copy_to_host(range.data(), source->data(), bytes);
    stream->record(*start);
    stream->copy_to_host(range.data(), source->data(), bytes);
    stream->record(*end);
    end->wait();
    const double seconds = end->seconds_since(*start);
    return seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0;
}

}  // namespace offramp
