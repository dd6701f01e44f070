// A published slab holds the batch's bytes, every time. Tested on each device; two tests show that
// leaving out either of the two waits breaks this.

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "producer/device/gpu_search.hpp"
#include "producer/device/lending_pool.hpp"
#include "producer/egress/egress_stream.hpp"
#include "tests/contract/egress/faulty_device.hpp"

namespace offramp {

std::string device_under_test();  // defined by each program that contains the suite

namespace {

constexpr std::uint32_t kParts = 16;  // of a batch, a slab each
constexpr std::size_t kPartBytes = std::size_t{256} << 10;
constexpr std::size_t kBatchBytes = kParts * kPartBytes;
constexpr std::uint32_t kSlabs = 8;
constexpr std::uint64_t kPatterns = 37;  // no multiple of slabs or buffers: earlier bytes there differ
constexpr std::size_t kShift = 4096 + 8;
constexpr std::size_t kDeviceBuffers = 3;
constexpr int kRounds = 100;  // a race shows within these

SlabLayout one_part_a_slab() {
    const std::int64_t shape[] = {kParts, static_cast<std::int64_t>(kPartBytes)};
    return SlabLayout::make({TensorSpec::contiguous("payload", kUInt8, shape)}, 1);
}

// Device memory for outputs, recycled as a model's allocator would.
class OutputBuffers {
  public:
    explicit OutputBuffers(Device& device) {
        for (std::size_t i = 0; i < kDeviceBuffers; ++i) free_.push_back(device.allocate(kBatchBytes, "test outputs"));
    }
    std::shared_ptr<DeviceBuffer> take() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !free_.empty(); });
        std::unique_ptr<DeviceBuffer> buffer = std::move(free_.back());
        free_.pop_back();
        return {buffer.release(), [this](DeviceBuffer* back) {
                    {
                        const std::lock_guard guard(mutex_);
                        free_.emplace_back(back);
                    }
                    changed_.notify_one();
                }};
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::unique_ptr<DeviceBuffer>> free_;
};

class EgressOrder : public testing::Test {
  protected:
    void SetUp() override {
        if (device_under_test() == "cuda" && !find_gpus().obstacle.empty()) GTEST_SKIP() << find_gpus().obstacle;
    }

    // Sends the batches through an egress and counts the parts that were published with other bytes than the batch's.
    // `work`: copies of a batch's size that keep the compute stream busy before it writes the outputs.
    std::uint64_t mismatches(Fault fault, std::uint64_t batches, int work = 3) {
        const std::unique_ptr<Device> device = make_faulty_device(open_device(device_under_test()), fault);
        device->use_on_this_thread();
        const SlabLayout layout = one_part_a_slab();
        const auto memory = device->allocate_pinned_host(kSlabs * layout.slab_bytes, "test slabs");
        pattern_ = device->allocate_pinned_host(kBatchBytes + kPatterns * kShift, "test patterns");
        std::mt19937_64 random(7);
        for (std::size_t at = 0; at + 8 <= pattern_->bytes(); at += 8) {
            const std::uint64_t word = random();
            std::memcpy(pattern_->data() + at, &word, 8);
        }
        OutputBuffers outputs(*device);
        const auto slow = device->allocate(kBatchBytes, "test work");
        const auto compute = device->make_stream("compute");
        LendingPool<Event> events([&] { return device->make_event(); });
        DeviceTimeline timeline(*device, *compute);
        const auto exchange = SlabExchange::make(kSlabs);
        for (std::uint32_t slab = 0; slab < kSlabs; ++slab) lend(*exchange, {slab, 1, slab_of(*memory, layout, slab)});

        std::uint64_t wrong = 0;
        std::thread reader([&] { wrong = read_all(*exchange, *memory, layout, batches * kParts); });
        {
            EgressStream egress(*device, exchange, layout, timeline, {.slab_count = kSlabs, .batch = kParts}, [] {});
            for (std::uint64_t batch = 0; batch < batches; ++batch) {
                OutputBatch output{.number = batch, .rows = std::vector<RowInfo>(kParts)};
                const std::shared_ptr<DeviceBuffer> buffer = outputs.take();
                for (int i = 0; i < work; ++i) compute->copy_to_device(slow->data(), pattern_->data(), kBatchBytes);
                compute->copy_to_device(buffer->data(), pattern_of(batch), kBatchBytes);
                const std::int64_t shape[] = {kParts, static_cast<std::int64_t>(kPartBytes)};
                output.tensors.push_back({TensorSpec::contiguous("payload", kUInt8, shape), buffer->data(), buffer});
                output.computed = events.take();
                compute->record(*output.computed);
                egress.submit(std::move(output));
            }
            egress.finish();
        }
        reader.join();
        compute->synchronize();
        return wrong;
    }

    // An existing race shows sooner or later.
    bool shows(Fault fault, std::uint64_t batches, int work) {
        for (int round = 0; round < kRounds; ++round)
            if (mismatches(fault, batches, work) > 0) return true;
        return false;
    }

  private:
    static void lend(SlabExchange& exchange, WriteLoan loan) { exchange.grant({&loan, 1}); }
    static std::span<std::byte> slab_of(const DeviceBuffer& memory, const SlabLayout& layout, std::uint32_t slab) {
        return {memory.data() + slab * layout.slab_bytes, layout.slab_bytes};
    }
    const std::byte* pattern_of(std::uint64_t batch) const { return pattern_->data() + (batch % kPatterns) * kShift; }

    // Plays broker and consumer: reads every slab as soon as it is published, then returns it to the pool.
    std::uint64_t read_all(SlabExchange& exchange, const DeviceBuffer& memory, const SlabLayout& layout,
                           std::uint64_t parts) {
        std::vector<std::uint64_t> generation(kSlabs, 1);
        std::uint64_t wrong = 0;
        for (std::uint64_t seen = 0; seen < parts;) {
            for (const PublishedSlab& published : exchange.take().published) {
                const std::span<std::byte> slab = slab_of(memory, layout, published.slab);
                BatchRecord record{};
                std::memcpy(&record, slab.data() + layout.batches_offset, sizeof record);
                wrong += std::memcmp(slab.data() + layout.header_bytes,
                                     pattern_of(record.batch) + record.first_row * kPartBytes, kPartBytes) != 0
                             ? 1
                             : 0;
                ++seen;
                lend(exchange, {published.slab, ++generation[published.slab], slab});
            }
        }
        return wrong;
    }

    std::unique_ptr<DeviceBuffer> pattern_;
};

TEST_F(EgressOrder, NoPublishedPartEverHasOtherBytes) {
    const std::uint64_t parts = device_under_test() == "cuda" ? 100'000 : 4'000;
    EXPECT_EQ(mismatches(Fault::None, parts / kParts), 0U);
    RecordProperty("parts", std::to_string(parts));
}

#if !defined(__SANITIZE_THREAD__)  // the two are races by design

TEST_F(EgressOrder, PublishingBeforeTheEventShows) { EXPECT_TRUE(shows(Fault::DoneTooEarly, 100, 3)); }

TEST_F(EgressOrder, CopyingBeforeTheComputationShows) { EXPECT_TRUE(shows(Fault::ComputeNotAwaited, 40, 40)); }

#endif

}  // namespace
}  // namespace offramp
