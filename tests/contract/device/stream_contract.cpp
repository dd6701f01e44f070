#include "tests/contract/device/device_contract.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <thread>

// Streams: order, sizes, host work, and their end.

namespace offramp {
namespace {

TEST_P(DeviceContract, RunsCopiesOfAStreamInTheOrderTheyWereGiven) {
    constexpr std::size_t kBytes = std::size_t{2} << 20;
    constexpr std::uint32_t kRounds = 8;
    const auto scratch = device().allocate(kBytes, "scratch");
    const auto staging = device().allocate_pinned_host(kRounds * kBytes, "staging");
    const auto results = device().allocate_pinned_host(kRounds * kBytes, "results");
    for (std::uint32_t round = 0; round < kRounds; ++round)
        std::memcpy(staging->data() + round * kBytes, patterned_bytes(kBytes, round).data(), kBytes);

    const auto stream = device().make_stream("order");
    for (std::size_t round = 0; round < kRounds; ++round) {
        stream->copy_to_device(scratch->data(), staging->data() + round * kBytes, kBytes);
        stream->copy_to_host(results->data() + round * kBytes, scratch->data(), kBytes);
    }
    record_on(*stream)->wait();
    EXPECT_EQ(std::memcmp(results->data(), staging->data(), kRounds * kBytes), 0);
}

TEST_P(DeviceContract, CopiesAnySizeFromAndToAnyOffset) {
    constexpr std::size_t kBytes = 20'000;
    const std::vector<std::byte> bytes = patterned_bytes(kBytes, 5);
    const auto source = upload(bytes);
    const auto pinned = device().allocate_pinned_host(kBytes, "target");
    const auto round_trip = device().allocate(kBytes, "round trip");
    const auto stream = device().make_stream("odd");
    const auto in_range = [](std::size_t from, std::size_t to) { return rc::gen::inRange(from, to + 1); };
    EXPECT_TRUE(rc::check("a copy changes its bytes and no others", [&] {
        const std::size_t length = *in_range(0, kBytes);
        const std::size_t from = *in_range(0, kBytes - length);
        const std::size_t to = *in_range(0, kBytes - length);
        std::memset(pinned->data(), 0x5a, kBytes);
        std::vector<std::byte> expected(kBytes, std::byte{0x5a});
        std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(from), length,
                    expected.begin() + static_cast<std::ptrdiff_t>(to));

        stream->copy_to_host(pinned->data() + to, source->data() + from, length);
        stream->copy_to_device(round_trip->data(), pinned->data(), kBytes);
        stream->synchronize();
        RC_ASSERT(std::memcmp(pinned->data(), expected.data(), kBytes) == 0);
        RC_ASSERT(download(*round_trip) == expected);
    }));
}

TEST_P(DeviceContract, CopiesManyPiecesBehindTheWorkBeforeThem) {
    constexpr std::size_t kPieces = 1000, kBytes = 4096, kLarge = std::size_t{64} << 20;
    const std::vector<std::byte> bytes = patterned_bytes(kPieces * kBytes, 6);
    const auto staged = device().allocate_pinned_host(bytes.size(), "staged");
    std::memcpy(staged->data(), bytes.data(), bytes.size());
    const auto source = device().allocate(bytes.size(), "source");
    const auto result = device().allocate_pinned_host(bytes.size(), "result");
    const auto large = device().allocate(kLarge, "large");
    const auto large_on_host = device().allocate_pinned_host(kLarge, "large");
    std::vector<Stream::HostCopy> copies;
    for (std::size_t piece = 0; piece < kPieces; ++piece) {
        const std::size_t size = 1 + piece * 4 % kBytes;  // the rest keeps its zeros
        copies.push_back({result->data() + (kPieces - 1 - piece) * kBytes, source->data() + piece * kBytes, size});
    }
    const auto stream = device().make_stream("pieces");
    for (int round = 0; round < 3; ++round) {
        std::memset(result->data(), 0, result->bytes());
        stream->copy_to_device(large->data(), large_on_host->data(), kLarge);  // delays the work behind it
        stream->copy_to_device(source->data(), staged->data(), bytes.size());
        stream->copy_all_to_host(copies);
        stream->synchronize();
        for (const Stream::HostCopy& copy : copies) {
            const auto piece = static_cast<std::size_t>(static_cast<const std::byte*>(copy.from) - source->data());
            ASSERT_EQ(std::memcmp(copy.to, bytes.data() + piece, copy.bytes), 0);
            ASSERT_EQ(copy.to[copy.bytes], std::byte{0});
        }
    }
    stream->copy_all_to_host({});
    stream->copy_all_to_host(std::span(copies).first(1));
    stream->synchronize();
}

TEST_P(DeviceContract, RunsWorkOfTheHostInTheOrderOfTheStream) {
    constexpr std::size_t kBytes = std::size_t{8} << 20;
    const std::vector<std::byte> bytes = patterned_bytes(kBytes, 8);
    const auto staging = device().allocate_pinned_host(kBytes, "staging");
    const auto memory = device().allocate(kBytes, "memory");
    const auto result = device().allocate_pinned_host(kBytes, "result");
    const auto copy = device().allocate_pinned_host(kBytes, "copy");
    const auto stream = device().make_stream("host work");
    const std::thread::id caller = std::this_thread::get_id();
    std::thread::id worker = caller;
    // Each step reads what the one before it wrote.
    stream->run_on_host([&] {
        std::memcpy(staging->data(), bytes.data(), kBytes);
        worker = std::this_thread::get_id();
    });
    stream->copy_to_device(memory->data(), staging->data(), kBytes);
    stream->copy_to_host(result->data(), memory->data(), kBytes);
    stream->run_on_host([&] { std::memcpy(copy->data(), result->data(), kBytes); });
    stream->synchronize();
    EXPECT_EQ(std::memcmp(copy->data(), bytes.data(), kBytes), 0);
    EXPECT_NE(worker, caller);
}

// The objects that host work holds are dropped once it has run, at the latest when the stream is gone.
TEST_P(DeviceContract, DropsFinishedHostWork) {
    const auto held = std::make_shared<int>(1);
    auto stream = device().make_stream("host work");
    for (int round = 0; round < 3; ++round) stream->run_on_host([held] { static_cast<void>(*held); });
    stream.reset();
    EXPECT_EQ(held.use_count(), 1);
}

TEST_P(DeviceContract, FinishesAStreamsWorkBeforeItIsDestroyed) {
    constexpr std::size_t kBytes = std::size_t{8} << 20;
    const std::vector<std::byte> bytes = patterned_bytes(kBytes, 9);
    const auto result = device().allocate_pinned_host(kBytes, "result");
    auto source = upload(bytes);
    auto stream = device().make_stream("short-lived");
    auto event = device().make_event();
    stream->copy_to_host(result->data(), source->data(), kBytes);
    stream->record(*event);
    stream.reset();
    source.reset();
    EXPECT_TRUE(event->done());
    EXPECT_EQ(std::memcmp(result->data(), bytes.data(), kBytes), 0);
}

}  // namespace
}  // namespace offramp
