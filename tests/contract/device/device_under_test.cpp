#include <algorithm>

#include "producer/device/gpu_search.hpp"
#include "tests/contract/device/device_contract.hpp"

namespace offramp {

void DeviceContract::SetUp() {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    if (GetParam().starts_with("cuda")) {
        const GpuSearch search = find_gpus();
        if (search.count == 0) GTEST_SKIP() << search.obstacle;
    }
    device_ = open_device(GetParam());
    device_->use_on_this_thread();
}

std::unique_ptr<DeviceBuffer> DeviceContract::upload(std::span<const std::byte> bytes) {
    std::unique_ptr<DeviceBuffer> buffer = device().allocate(std::max<std::size_t>(bytes.size(), 1), "test input");
    const std::unique_ptr<Stream> stream = device().make_stream("upload");
    stream->copy_to_device(buffer->data(), bytes.data(), bytes.size());
    stream->synchronize();
    return buffer;
}

std::vector<std::byte> DeviceContract::download(const DeviceBuffer& buffer) {
    std::vector<std::byte> bytes(buffer.bytes());
    const std::unique_ptr<Stream> stream = device().make_stream("download");
    stream->copy_to_host(bytes.data(), buffer.data(), bytes.size());
    stream->synchronize();
    return bytes;
}

std::unique_ptr<Event> DeviceContract::record_on(Stream& stream) {
    std::unique_ptr<Event> event = device().make_event();
    stream.record(*event);
    return event;
}

std::vector<std::byte> patterned_bytes(std::size_t count, std::uint32_t seed) {
    std::vector<std::uint64_t> words(count / sizeof(std::uint64_t) + 1);
    std::uint64_t state = seed;
    for (std::uint64_t& word : words) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        word = state ^ (state >> 29);
    }
    std::vector<std::byte> bytes(count);
    if (count > 0) std::memcpy(bytes.data(), words.data(), count);
    return bytes;
}

}  // namespace offramp
