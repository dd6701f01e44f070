#include "tests/contract/device/device_contract.hpp"

#include <thread>

#include "producer/device/cuda_failure.hpp"

// The contract of a device as a whole; streams, events and page-locking have separate files.

namespace offramp {
namespace {

TEST_P(DeviceContract, DescribesItself) {
    const DeviceInfo info = device().info();
    EXPECT_EQ(info.kind, device().is_gpu() ? "cuda" : "cpu");
    EXPECT_FALSE(info.name.empty());
    EXPECT_GT(info.total_bytes, 0U);
    EXPECT_GT(info.free_bytes, 0U);
    EXPECT_LE(info.free_bytes, info.total_bytes);
    const auto stream = device().make_stream("native");
    EXPECT_EQ(stream->native() != nullptr, device().is_gpu());
    if (device().is_gpu()) {
        EXPECT_GE(info.compute_major, 8);
        EXPECT_GE(info.driver_version, info.runtime_version / 1000 * 1000);
        EXPECT_FALSE(info.pci_address.empty());
    }
}

TEST_P(DeviceContract, ServesSeveralThreadsAtOnce) {
    constexpr std::size_t kBytes = std::size_t{1} << 20;
    std::vector<std::vector<std::byte>> results(4, std::vector<std::byte>(kBytes));
    {
        std::vector<std::jthread> threads;
        for (std::uint32_t i = 0; i < results.size(); ++i) {
            threads.emplace_back([this, i, &results] {
                device().use_on_this_thread();
                const auto buffer = upload(patterned_bytes(kBytes, i));
                results[i] = download(*buffer);
            });
        }
    }
    for (std::uint32_t i = 0; i < results.size(); ++i) EXPECT_EQ(results[i], patterned_bytes(kBytes, i)) << i;
}

TEST_P(DeviceContract, PartsMayBeDestroyedInAnyOrder) {
    const auto buffer = device().allocate(64, "small");
    std::vector<std::byte> result(64);
    auto event = device().make_event();
    auto unused = device().make_event(Device::Timing::On);
    auto stream = device().make_stream("first");
    auto other = device().make_stream("second");
    stream->copy_to_device(buffer->data(), result.data(), result.size());
    stream->record(*event);
    other->wait_for(*event);
    event.reset();
    stream.reset();
    unused.reset();
    other->copy_to_host(result.data(), buffer->data(), result.size());
    other.reset();
    EXPECT_EQ(result, std::vector<std::byte>(64));
}

TEST_P(DeviceContract, ReportsTheSizeNeededWhenMemoryRunsOut) {
    constexpr std::size_t kTooMuch = std::size_t{1} << 46;
    try {
        static_cast<void>(device().allocate(kTooMuch, "the model's output"));
        FAIL() << "70 TB were allocated";
    } catch (const CudaError& error) {
        EXPECT_EQ(error.kind(), ErrorKind::DeviceOutOfMemory);
        const std::string text = error.what();
        EXPECT_NE(text.find("the model's output"), std::string::npos) << text;
        EXPECT_NE(text.find("needed " + std::to_string(kTooMuch) + " bytes"), std::string::npos) << text;
        EXPECT_NE(text.find("free "), std::string::npos) << text;
    }
    EXPECT_THROW(static_cast<void>(device().allocate_pinned_host(kTooMuch, "staging")), CudaError);
    const auto still_works = upload(patterned_bytes(1024, 1));
    EXPECT_EQ(download(*still_works), patterned_bytes(1024, 1));
}

INSTANTIATE_TEST_SUITE_P(Device, DeviceContract, testing::ValuesIn(devices_under_test()), device_name);
INSTANTIATE_TEST_SUITE_P(Device, DeviceContractDeathTest, testing::ValuesIn(devices_under_test()), device_name);

}  // namespace
}  // namespace offramp
