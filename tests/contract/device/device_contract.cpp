#include "tests/contract/device/device_contract.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <rapidcheck.h>

#include <algorithm>
#include <thread>

#include "common/base/unique_fd.hpp"
#include "producer/device/cuda_error.hpp"

namespace offramp {
namespace {

// Like a slab: shared memory, mapped and populated.
class MappedRange {
  public:
    explicit MappedRange(std::size_t bytes) : bytes_(bytes) {
        const UniqueFd file(::memfd_create("device-contract", MFD_CLOEXEC));
        if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) throw std::runtime_error("memfd_create");
        void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.get(), 0);
        if (memory == MAP_FAILED) throw std::runtime_error("mmap");
        memory_ = static_cast<std::byte*>(memory);
    }
    ~MappedRange() { ::munmap(memory_, bytes_); }
    MappedRange(const MappedRange&) = delete;
    MappedRange& operator=(const MappedRange&) = delete;

    std::span<std::byte> bytes() const { return {memory_, bytes_}; }

  private:
    std::byte* memory_ = nullptr;
    std::size_t bytes_;
};

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

// What the work holds is dropped once it has run, at the latest when the stream has gone.
TEST_P(DeviceContract, LetsGoOfWorkThatHasRun) {
    const auto held = std::make_shared<int>(1);
    auto stream = device().make_stream("host work");
    for (int round = 0; round < 3; ++round) stream->run_on_host([held] { static_cast<void>(*held); });
    stream.reset();
    EXPECT_EQ(held.use_count(), 1);
}

TEST_P(DeviceContract, MayLoseAnEventThatAStreamStillWaitsFor) {
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

TEST_P(DeviceContract, TellsArmedEventsFromOthers) {
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

TEST_P(DeviceContractDeathTest, RefusesToWaitForAnEventThatWasNeverArmed) {
    EXPECT_DEATH(device().make_event()->wait(), "broken contract: an event is armed before it is waited for");
    EXPECT_DEATH(
        {
            const auto event = device().make_event();
            device().make_stream("waiting")->wait_for(*event);
        },
        "broken contract: an event is armed before a stream waits for it");
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

TEST_P(DeviceContract, FinishesTheWorkOfAStreamThatGoes) {
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

TEST_P(DeviceContract, LetsPartsGoInAnyOrder) {
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

TEST_P(DeviceContract, WaitsOnOneThreadForWhatAnotherRecorded) {
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

TEST_P(DeviceContract, PageLocksAMappedRangeAndLetsItGo) {
    constexpr std::size_t kBytes = std::size_t{16} << 20;
    const MappedRange range(kBytes);
    const std::vector<std::byte> bytes = patterned_bytes(kBytes, 2);
    const auto source = upload(bytes);
    const auto stream = device().make_stream("slab");
    EXPECT_FALSE(device().prove_pinned(range.bytes()).registered);
    for (int round = 0; round < 2; ++round) {
        const auto registration = device().pin(range.bytes());
        const PinningProof proof = device().prove_pinned(range.bytes());
        EXPECT_EQ(proof.registered, device().is_gpu());
        EXPECT_GT(proof.gigabytes_per_second, 0.0);
        std::memset(range.bytes().data(), 0, kBytes);
        stream->copy_to_host(range.bytes().data(), source->data(), kBytes);
        stream->synchronize();
        EXPECT_EQ(std::memcmp(range.bytes().data(), bytes.data(), kBytes), 0);
        EXPECT_EQ(device().prove_pinned(range.bytes()).registered, device().is_gpu());
        EXPECT_EQ(std::memcmp(range.bytes().data(), bytes.data(), kBytes), 0) << "the proof gives back what it found";
    }
    EXPECT_FALSE(device().prove_pinned(range.bytes()).registered);
}

TEST_P(DeviceContract, FindsARangeThatIsPageLockedInPartOnly) {
    constexpr std::size_t kBytes = std::size_t{8} << 20;
    const MappedRange range(kBytes);
    const auto registration = device().pin(range.bytes().first(kBytes / 2));
    EXPECT_EQ(device().prove_pinned(range.bytes().first(kBytes / 2)).registered, device().is_gpu());
    EXPECT_FALSE(device().prove_pinned(range.bytes().last(kBytes / 2)).registered);
}

TEST_P(DeviceContractDeathTest, RefusesToPageLockNothingOrTooMuch) {
    EXPECT_DEATH(static_cast<void>(device().pin({})), "broken contract: a range to page-lock is not empty");
    // Never touched: the size alone is refused.
    std::byte one{};
    EXPECT_DEATH(static_cast<void>(device().pin({&one, (std::size_t{64} << 30) + 1})),
                 "broken contract: at most 64 GiB");
}

TEST_P(DeviceContract, SaysWhatWasNeededWhenMemoryRunsOut) {
    constexpr std::size_t kTooMuch = std::size_t{1} << 46;
    try {
        static_cast<void>(device().allocate(kTooMuch, "the model's output"));
        FAIL() << "70 TB were allocated";
    } catch (const CudaError& error) {
        EXPECT_EQ(error.exit_code(), ExitCode::DeviceOutOfMemory);
        const std::string text = error.what();
        EXPECT_NE(text.find("the model's output"), std::string::npos) << text;
        EXPECT_NE(text.find("needed " + std::to_string(kTooMuch) + " bytes"), std::string::npos) << text;
        EXPECT_NE(text.find("free "), std::string::npos) << text;
    }
    EXPECT_THROW(static_cast<void>(device().allocate_pinned_host(kTooMuch, "staging")), CudaError);
    const auto still_works = upload(patterned_bytes(1024, 1));
    EXPECT_EQ(download(*still_works), patterned_bytes(1024, 1));
}

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

INSTANTIATE_TEST_SUITE_P(Device, DeviceContract, testing::ValuesIn(devices_under_test()), device_name);
INSTANTIATE_TEST_SUITE_P(Device, DeviceContractDeathTest, testing::ValuesIn(devices_under_test()), device_name);

}  // namespace
}  // namespace offramp
