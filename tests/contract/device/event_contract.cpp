#include "tests/contract/device/device_contract.hpp"

#include <thread>

// Events: hosts and streams wait for them; they can be armed again and timed.

namespace offramp {
namespace {

TEST_P(DeviceContract, MakesAStreamWaitForAnothersEvent) {
    constexpr std::size_t kBytes = std::size_t{8} << 20;
    const auto shared = device().allocate(kBytes, "shared");
    const auto staging = device().allocate_pinned_host(kBytes, "staging");
    const auto result = device().allocate_pinned_host(kBytes, "result");
    const auto producer = device().make_stream("producer");
    const auto consumer = device().make_stream("consumer");
    for (std::uint32_t round = 0; round < 8; ++round) {
        std::memcpy(staging->data(), patterned_bytes(kBytes, round).data(), kBytes);
        producer->copy_to_device(shared->data(), staging->data(), kBytes);
        const auto produced = record_on(*producer);
        consumer->wait_for(*produced);
        consumer->copy_to_host(result->data(), shared->data(), kBytes);
        const auto consumed = record_on(*consumer);
        consumed->wait();
        EXPECT_TRUE(produced->done());
        ASSERT_EQ(std::memcmp(result->data(), staging->data(), kBytes), 0) << "round " << round;
    }
}

TEST_P(DeviceContract, AnEventMayBeDestroyedWhileAStreamWaits) {
    constexpr std::size_t kBytes = std::size_t{8} << 20;
    const std::vector<std::byte> bytes = patterned_bytes(kBytes, 7);
    const auto shared = device().allocate(kBytes, "shared");
    std::vector<std::byte> result(kBytes);
    const auto producer = device().make_stream("producer");
    const auto consumer = device().make_stream("consumer");
    producer->copy_to_device(shared->data(), bytes.data(), kBytes);
    {
        const auto produced = record_on(*producer);
        consumer->wait_for(*produced);
    }
    consumer->copy_to_host(result.data(), shared->data(), kBytes);
    consumer->synchronize();
    EXPECT_EQ(result, bytes);
}

TEST_P(DeviceContract, DistinguishesArmedEventsFromOthers) {
    const auto event = device().make_event();
    EXPECT_FALSE(event->armed());
    EXPECT_FALSE(event->done());
    const auto stream = device().make_stream("events");
    stream->record(*event);
    EXPECT_TRUE(event->armed());
    event->wait();
    EXPECT_TRUE(event->done());
    event->wait();
    EXPECT_TRUE(event->armed());
}

TEST_P(DeviceContract, ArmsAnEventAgain) {
    constexpr std::size_t kBytes = std::size_t{8} << 20;
    const auto stream = device().make_stream("events");
    const auto event = device().make_event();
    const auto result = device().allocate_pinned_host(kBytes, "result");
    for (std::uint32_t round = 0; round < 4; ++round) {
        const std::vector<std::byte> bytes = patterned_bytes(kBytes, round);
        const auto source = upload(bytes);
        stream->copy_to_host(result->data(), source->data(), kBytes);
        stream->record(*event);
        event->wait();
        ASSERT_EQ(std::memcmp(result->data(), bytes.data(), kBytes), 0) << "round " << round;
    }
}

TEST_P(DeviceContract, WaitsForTheLatestRecordingOfAnEvent) {
    constexpr std::size_t kBytes = std::size_t{8} << 20;
    const std::vector<std::byte> bytes = patterned_bytes(kBytes, 3);
    const auto source = upload(bytes);
    const auto result = device().allocate_pinned_host(kBytes, "result");
    const auto stream = device().make_stream("events");
    const auto event = device().make_event();
    stream->record(*event);
    stream->copy_to_host(result->data(), source->data(), kBytes);
    stream->record(*event);
    event->wait();
    EXPECT_EQ(std::memcmp(result->data(), bytes.data(), kBytes), 0);
}

TEST_P(DeviceContractDeathTest, RefusesToWaitForAnUnarmedEvent) {
    EXPECT_DEATH(device().make_event()->wait(), "broken contract: an event is armed before it is waited for");
    EXPECT_DEATH(
        {
            const auto event = device().make_event();
            device().make_stream("waiting")->wait_for(*event);
        },
        "broken contract: an event is armed before a stream waits for it");
}

TEST_P(DeviceContract, TakesTimeBetweenEvents) {
    constexpr std::size_t kBytes = std::size_t{8} << 20;
    const auto source = upload(patterned_bytes(kBytes, 1));
    const auto result = device().allocate_pinned_host(kBytes, "result");
    const auto stream = device().make_stream("timed");
    const auto start = device().make_event(Device::Timing::On);
    const auto end = device().make_event(Device::Timing::On);
    stream->record(*start);
    stream->copy_to_host(result->data(), source->data(), kBytes);
    stream->record(*end);
    end->wait();
    EXPECT_GT(end->seconds_since(*start), 0.0);
}

TEST_P(DeviceContractDeathTest, RefusesToTakeTimeFromEventsWithoutTiming) {
    EXPECT_DEATH(
        {
            const auto stream = device().make_stream("untimed");
            const auto start = record_on(*stream);
            const auto end = record_on(*stream);
            end->wait();
            static_cast<void>(end->seconds_since(*start));
        },
        "broken contract: time is taken between");
}

TEST_P(DeviceContract, WaitsForAnotherThreadsRecording) {
    constexpr std::size_t kBytes = std::size_t{8} << 20;
    const std::vector<std::byte> bytes = patterned_bytes(kBytes, 4);
    const auto source = upload(bytes);
    const auto result = device().allocate_pinned_host(kBytes, "result");
    const auto stream = device().make_stream("egress");
    stream->copy_to_host(result->data(), source->data(), kBytes);
    const auto event = record_on(*stream);
    int difference = -1;
    std::jthread([&] {
        device().use_on_this_thread();
        event->wait();
        difference = std::memcmp(result->data(), bytes.data(), kBytes);
    }).join();
    EXPECT_EQ(difference, 0);
}

}  // namespace
}  // namespace offramp
