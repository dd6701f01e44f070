#include "producer/egress/egress_stream.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

#include "common/wire/slab_view.hpp"
#include "producer/runner/transforms/score_review.hpp"

namespace offramp {
namespace {

using testing::ElementsAre;

constexpr std::uint64_t kNonce = 0xabc;
constexpr std::int64_t kSampleBytes = 8;
constexpr std::uint32_t kBatch = 4;
constexpr std::uint32_t kSlabs = 8;

// The test plays the broker: it lends memory and reads the published slabs.
class EgressStreamTest : public testing::Test {
  protected:
    void start(std::int64_t rows, std::uint32_t batches, std::chrono::nanoseconds max_delay) {
        const std::int64_t shape[] = {kBatch, kSampleBytes};
        start_with(SlabLayout::make({TensorSpec::contiguous("payload", kUInt8, shape)}, rows, batches), max_delay);
    }
    void start_with(SlabLayout layout, std::chrono::nanoseconds max_delay) {
        layout_ = std::move(layout);
        memory_.resize(kSlabs * layout_.slab_bytes);
        for (std::uint32_t slab = 0; slab < kSlabs; ++slab) grant(slab);
        egress_ =
            std::make_unique<EgressStream>(*device_, exchange_, layout_, timeline_,
                                           EgressStream::Options{.header_fields = {.run_nonce = kNonce, .epoch = 1},
                                                                 .slab_count = kSlabs,
                                                                 .batch = kBatch,
                                                                 .queue_depth = 4,
                                                                 .max_delay = max_delay,
                                                                 .when_none = when_none_,
                                                                 .on_dropped = on_dropped_},
                                           [this] { on_failure_(); });
    }

    // Batch `number`, whose bytes all equal its number; `rows`: fewer in a last batch.
    void submit(std::uint64_t number, std::uint32_t rows = kBatch) {
        OutputBatch batch{.number = number, .rows = std::vector<RowInfo>(rows)};
        for (std::uint32_t row = 0; row < rows; ++row) batch.rows[row].item = number * kBatch + row;
        const auto bytes = std::make_shared<std::vector<std::byte>>(kBatch * kSampleBytes, std::byte(number));
        const std::int64_t shape[] = {kBatch, kSampleBytes};
        batch.tensors.push_back({TensorSpec::contiguous("payload", kUInt8, shape), bytes->data(), bytes});
        if (review_ != nullptr) {
            const auto found =
                std::shared_ptr<DeviceBuffer>(device_->allocate_pinned_host(kBatch * sizeof(float), "outliers"));
            std::memcpy(found->data(), outliers_.data(), kBatch * sizeof(float));
            batch.outliers.push_back({.output = "mask", .memory = found});
            batch.review = review_;
        }
        batch.computed = device_->make_event();
        compute_->record(*batch.computed);
        EXPECT_TRUE(egress_->submit(std::move(batch)));
    }

    PublishedSlab next() {
        while (published_.empty()) {
            for (const PublishedSlab& slab : exchange_->take().published) published_.push_back(slab);
            std::this_thread::yield();
        }
        const PublishedSlab slab = published_.front();
        published_.erase(published_.begin());
        return slab;
    }

    // The batch number of each sample in a slab, checked against its bytes.
    std::vector<std::uint64_t> batches_in(const PublishedSlab& published) {
        const SlabContents slab = SlabContents::read(
            slab_of(published.slab), kNonce, {.epoch = 1, .slab = published.slab, .generation = 1, .attempt = 1});
        std::vector<std::uint64_t> batches;
        for (const SampleView& sample : slab.samples) {
            batches.push_back(sample.batch);
            for (const std::byte value : slab.tensor().row(sample.row)) EXPECT_EQ(value, std::byte(sample.batch));
            EXPECT_EQ(sample.item / kBatch, sample.batch);
        }
        return batches;
    }

    std::vector<bool> holes_in(const PublishedSlab& published) {
        const SlabContents slab = SlabContents::read(
            slab_of(published.slab), kNonce, {.epoch = 1, .slab = published.slab, .generation = 1, .attempt = 1});
        std::vector<bool> holes;
        for (const SampleView& sample : slab.samples) holes.push_back(sample.empty);
        return holes;
    }

    void grant(std::uint32_t slab) {
        WriteLoan loan(slab, 1, slab_of(slab));
        exchange_->grant({&loan, 1});
    }
    std::span<std::byte> slab_of(std::uint32_t slab) {
        return {memory_.data() + slab * layout_.slab_bytes, layout_.slab_bytes};
    }

    std::unique_ptr<Device> device_ = open_cpu_device();
    std::unique_ptr<Stream> compute_ = device_->make_stream("compute");
    DeviceTimeline timeline_{*device_, *compute_};
    std::shared_ptr<SlabExchange> exchange_ = SlabExchange::make(kSlabs);
    SlabLayout layout_;
    std::vector<std::byte> memory_;
    std::vector<PublishedSlab> published_;
    std::vector<float> outliers_;
    ScoreReview* review_ = nullptr;
    SlabExchange::WhenNone when_none_ = SlabExchange::WhenNone::Wait;
    std::function<void(std::uint64_t, std::span<const RowInfo>)> on_dropped_;
    std::function<void()> on_failure_ = [] {};
    std::unique_ptr<EgressStream> egress_;
};

constexpr std::chrono::hours kForever{24};

// Samples of bytes whose length differs, all from one block of memory that has gaps.
class VaryingEgressTest : public EgressStreamTest {
  protected:
    void start_varying(std::size_t slab_bytes, std::uint32_t batches, std::chrono::nanoseconds max_delay) {
        const std::int64_t shape[] = {kBatch, kVarying};
        tensors_ = {TensorSpec::contiguous("payload", kUInt8, shape)};
        start_with(SlabLayout::make(tensors_, 16, batches, 0, slab_bytes), max_delay);
    }
    // A batch whose bytes all equal its number.
    void submit_lengths(std::uint64_t number, const std::vector<std::size_t>& lengths) {
        OutputBatch batch{.number = number, .rows = std::vector<RowInfo>(lengths.size())};
        const auto bytes = std::make_shared<std::vector<std::byte>>(4096, std::byte(number));
        DeviceTensor tensor{.spec = tensors_[0], .owner = bytes};
        for (std::size_t row = 0; row < lengths.size(); ++row) {
            batch.rows[row].item = number * kBatch + row;
            tensor.samples.push_back({.data = bytes->data() + row * 512, .bytes = lengths[row]});
            tensor.extents.push_back(static_cast<std::int64_t>(lengths[row]));
        }
        batch.tensors.push_back(std::move(tensor));
        batch.computed = device_->make_event();
        compute_->record(*batch.computed);
        EXPECT_TRUE(egress_->submit(std::move(batch)));
    }
    std::vector<std::size_t> lengths_in(const PublishedSlab& published) {
        const SlabContents slab = SlabContents::read(
            slab_of(published.slab), kNonce, {.epoch = 1, .slab = published.slab, .generation = 1, .attempt = 1});
        std::vector<std::size_t> lengths;
        std::size_t sum = 0;
        for (const SampleView& sample : slab.samples) {
            lengths.push_back(slab.tensor().row(sample.row).size());
            sum += lengths.back();
            for (const std::byte value : slab.tensor().row(sample.row)) EXPECT_EQ(value, std::byte(sample.batch));
        }
        EXPECT_EQ(published.bytes, sum);
        return lengths;
    }

    std::vector<TensorSpec> tensors_;
};

TEST_F(VaryingEgressTest, FillsEachSlabAndCutsBatchesBetweenSamples) {
    start_varying(256, 8, kForever);
    submit_lengths(1, {100, 60, 0});  // takes 192 bytes: each sample begins at a multiple of 64
    submit_lengths(2, {64, 65, 256, 1});
    EXPECT_THAT(lengths_in(next()), ElementsAre(100, 60, 0, 64));
    EXPECT_THAT(lengths_in(next()), ElementsAre(65));
    EXPECT_THAT(lengths_in(next()), ElementsAre(256));
    egress_->finish();
    EXPECT_THAT(lengths_in(next()), ElementsAre(1));
    EXPECT_EQ(egress_->stats().bytes_copied, 546U);
    EXPECT_EQ(egress_->stats().batches_published, 2U);
}

// A stream of the CPU that notes its copies.
class NotingStream final : public Stream {
  public:
    explicit NotingStream(std::unique_ptr<Stream> real) : real_(std::move(real)) {}

    void copy_to_host(std::byte* to, const void* from, std::size_t bytes) override {
        noted.push_back({to, from, bytes});
        real_->copy_to_host(to, from, bytes);
    }
    void copy_to_device(void* to, const std::byte* from, std::size_t bytes) override {
        real_->copy_to_device(to, from, bytes);
    }
    void run_on_host(std::function<void()> work) override { real_->run_on_host(std::move(work)); }
    void record(Event& event) override { real_->record(event); }
    void wait_for(Event& event) override { real_->wait_for(event); }
    void synchronize() override { real_->synchronize(); }
    void* native() const override { return real_->native(); }

    std::vector<HostCopy> noted;

  private:
    std::unique_ptr<Stream> real_;
};

// Neighbours in memory may be of two allocations, unless the batch is packed.
TEST_F(VaryingEgressTest, CopiesPackedSamplesTogetherAndOthersOneByOne) {
    const std::int64_t shape[] = {kBatch, kVarying};
    const auto spec = TensorSpec::contiguous("payload", kUInt8, shape);
    layout_ = SlabLayout::make({spec}, 16, 1, 0, 4096);
    memory_.resize(layout_.slab_bytes);
    const auto bytes = std::make_shared<std::vector<std::byte>>(1000);
    for (std::size_t i = 0; i < bytes->size(); ++i) (*bytes)[i] = std::byte(i);
    for (const bool packed : {true, false}) {
        DeviceTensor tensor{.spec = spec, .data = packed ? bytes->data() : nullptr, .owner = bytes};
        std::size_t from = 0;
        for (const std::size_t length : {0U, 100U, 7U, 0U, 50U}) {
            tensor.samples.push_back({bytes->data() + from, length});
            tensor.extents.push_back(static_cast<std::int64_t>(length));
            from += length;
        }
        const auto batch = std::make_shared<OutputBatch>(OutputBatch{.rows = std::vector<RowInfo>(5)});
        batch->tensors.push_back(tensor);
        NotingStream stream(device_->borrow_stream(nullptr));
        CopyEvents events = CopyEvents::make(*device_);
        OutputCounters counters;
        SlabFilling filling(WriteLoan(0, 1, memory_), layout_, {.run_nonce = kNonce, .epoch = 1}, stream, events);
        EXPECT_EQ(filling.add(batch, 0, 5), 5U);
        filling.close();
        EXPECT_EQ(filling.wait_copied(counters, timeline_).bytes, 157U);
        std::vector<std::size_t> sizes;
        for (const Stream::HostCopy& copy : stream.noted) sizes.push_back(copy.bytes);
        EXPECT_EQ(sizes, packed ? std::vector<std::size_t>{157} : (std::vector<std::size_t>{100, 7, 50}));
        const SlabContents slab =
            SlabContents::read(memory_, kNonce, {.epoch = 1, .slab = 0, .generation = 1, .attempt = 1});
        for (std::size_t row = 0; row < 5; ++row) {
            const auto& sample = tensor.samples[row];
            EXPECT_TRUE(std::ranges::equal(slab.tensor().row(row), std::span(sample.data, sample.bytes))) << row;
        }
    }
}

TEST_F(VaryingEgressTest, DropsASlabsWorthWithoutAFreeSlab) {
    when_none_ = SlabExchange::WhenNone::Return;
    std::vector<std::uint64_t> dropped;
    on_dropped_ = [&](std::uint64_t, std::span<const RowInfo> rows) {
        for (const RowInfo& row : rows) dropped.push_back(row.item);
        // before the next sample asks for a slab, so that it does not get the answer to these
        grant(3);
    };
    start_varying(128, 1, kForever);
    for (std::uint64_t number = 0; number < kSlabs; ++number) submit_lengths(number, {100});
    for (std::uint32_t slab = 0; slab < kSlabs; ++slab) next();
    submit_lengths(20, {3, 64, 65});
    while (egress_->stats().samples_dropped < 2) exchange_->note_shortage();  // the broker's answer
    EXPECT_THAT(lengths_in(next()), ElementsAre(65));
    egress_->finish();
    EXPECT_THAT(dropped, ElementsAre(80, 81));
    EXPECT_EQ(egress_->stats().bytes_dropped, 67U);
}

TEST_F(EgressStreamTest, BatchesShareASlabUntilItIsFull) {
    start(2 * kBatch, 2, kForever);
    for (std::uint64_t batch = 0; batch < 5; ++batch) submit(batch);
    PublishedSlab slab = next();
    EXPECT_EQ(slab.first_batch, 0U);
    EXPECT_EQ(slab.batches_ended, 2U);
    EXPECT_EQ(slab.samples, 2 * kBatch);
    EXPECT_THAT(batches_in(slab), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
    EXPECT_THAT(batches_in(next()), ElementsAre(2, 2, 2, 2, 3, 3, 3, 3));
    egress_->finish();
    slab = next();
    EXPECT_THAT(batches_in(slab), ElementsAre(4, 4, 4, 4)) << "the open slab is sent at the end";
    EXPECT_EQ(egress_->stats().samples_published, 5 * kBatch);
    EXPECT_EQ(egress_->stats().bytes_copied, 5 * kBatch * kSampleBytes);
}

TEST_F(EgressStreamTest, CountsARowOfImpossibleScoresAsAHole) {
    start(kBatch, 1, kForever);
    std::vector<std::uint64_t> skipped;
    ScoreReview review(
        layout_, {.skip = [&](std::uint64_t item, const std::string&) { return skipped.push_back(item), false; }});
    review_ = &review;
    outliers_ = {0, 0, 9, 0};
    submit(0);
    outliers_ = {0, NAN, 0, 0};
    submit(1, 3);
    egress_->finish();
    const PublishedSlab first = next(), second = next();
    EXPECT_THAT(holes_in(first), ElementsAre(false, false, true, false));
    EXPECT_EQ(first.samples, 3U);
    EXPECT_EQ(first.skipped, 1U);
    EXPECT_THAT(first.items, ElementsAre(ItemRange{0, 2}, ItemRange{3, 4}));
    EXPECT_THAT(holes_in(second), ElementsAre(false, true, false));
    EXPECT_THAT(skipped, ElementsAre(2, 5));
    const OutputStats stats = egress_->stats();
    EXPECT_EQ(stats.samples_submitted, 7U);
    EXPECT_EQ(stats.samples_published, 5U);
    EXPECT_EQ(stats.samples_rejected, 2U);
    EXPECT_EQ(stats.samples_unpublished(), 0U);
}

TEST_F(EgressStreamTest, ABatchWithoutOutputsBecomesHolesInPlace) {
    start(2 * kBatch, 2, kForever);
    std::ranges::fill(memory_, std::byte{0xff});
    submit(0);
    OutputBatch unread{.number = 1, .rows = std::vector<RowInfo>(kBatch)};
    for (std::uint32_t row = 0; row < kBatch; ++row) unread.rows[row] = {.item = kBatch + row, .empty = true};
    EXPECT_TRUE(egress_->submit(std::move(unread)));
    submit(2);
    egress_->finish();
    const PublishedSlab slab = next();
    EXPECT_EQ(slab.batches_ended, 2U);
    EXPECT_EQ(slab.samples, kBatch);
    EXPECT_EQ(slab.skipped, kBatch);
    EXPECT_EQ(slab.items_through, 2U * kBatch);
    EXPECT_EQ(slab.bytes, 2U * kBatch * kSampleBytes) << "as in the slab's tables, from which a successor counts";
    EXPECT_THAT(holes_in(slab), ElementsAre(false, false, false, false, true, true, true, true));
    const auto rows = slab_of(slab.slab).subspan(layout_.header_bytes, 2 * kBatch * kSampleBytes);
    EXPECT_THAT(rows.subspan(kBatch * kSampleBytes), testing::Each(std::byte{0}))
        << "no bytes of the slab's previous use";
    EXPECT_THAT(batches_in(next()), ElementsAre(2, 2, 2, 2));
    EXPECT_EQ(egress_->stats().bytes_copied, 2 * kBatch * kSampleBytes);
    EXPECT_EQ(egress_->stats().batches_published, 3U);
}

TEST_F(EgressStreamTest, ABatchWaitsForOthersAtMostTheDelay) {
    start(8 * kBatch, 8, std::chrono::milliseconds(1));
    submit(7);
    EXPECT_THAT(batches_in(next()), ElementsAre(7, 7, 7, 7)) << "it is published although nothing follows";
    submit(8);
    EXPECT_THAT(batches_in(next()), ElementsAre(8, 8, 8, 8));
}

TEST_F(EgressStreamTest, AShortBatchLeavesRoomForTheNext) {
    start(2 * kBatch, 3, kForever);
    submit(0, 3);
    submit(1);
    submit(2, 1);
    submit(3);
    EXPECT_THAT(batches_in(next()), ElementsAre(0, 0, 0, 1, 1, 1, 1, 2));
}

TEST_F(EgressStreamTest, CutsABatchLargerThanASlabBetweenSamples) {
    start(3, 1, {});
    submit(5);
    const PublishedSlab first = next();
    const PublishedSlab second = next();
    EXPECT_EQ(first.samples, 3U);
    EXPECT_EQ(first.batches_ended, 0U) << "its last rows are in the next";
    EXPECT_EQ(second.samples, 1U);
    EXPECT_EQ(second.batches_ended, 1U);
    EXPECT_THAT(batches_in(first), ElementsAre(5, 5, 5));
    EXPECT_THAT(batches_in(second), ElementsAre(5));
}

TEST_F(EgressStreamTest, AStopReturnsTheOpenSlab) {
    start(8 * kBatch, 8, kForever);
    submit(0);
    egress_->stop();
    egress_->finish();
    EXPECT_EQ(egress_->stats().samples_unpublished(), kBatch);
    EXPECT_EQ(exchange_->take().published.size(), 0U);
}

// Stream work that is done only when it is awaited.
class DoneWhenAwaited final : public Event {
  public:
    bool armed() const override { return true; }
    bool done() override { return awaited; }
    void wait() override { awaited = true; }
    double seconds_since(Event& /*earlier*/) override { return 0; }

    std::atomic<bool> awaited{false};
};

// Owners that the stream may still use: of the batch that waits for a slab, of those behind it, and of one that comes
// too late.
TEST_F(EgressStreamTest, AStopReleasesOwnersOnlyAfterTheirCopies) {
    const std::int64_t shape[] = {kBatch, kSampleBytes};
    layout_ = SlabLayout::make({TensorSpec::contiguous("payload", kUInt8, shape)}, kBatch, 1);
    const auto without_slabs = SlabExchange::make(kSlabs);
    egress_ = std::make_unique<EgressStream>(
        *device_, without_slabs, layout_, timeline_,
        EgressStream::Options{.slab_count = kSlabs, .batch = kBatch, .queue_depth = 4}, [] {});
    std::vector<std::byte> bytes(kBatch * kSampleBytes);
    std::atomic<int> released{0}, too_early{0};
    for (std::uint64_t number = 0; number < 4; ++number) {
        const bool too_late = number == 3;
        if (too_late) egress_->stop();
        const auto computed = std::make_shared<DoneWhenAwaited>();
        const std::shared_ptr<const void> owner(bytes.data(), [&, computed](const std::byte*) {
            too_early += computed->awaited ? 0 : 1;
            ++released;
        });
        OutputBatch batch{.number = number, .rows = std::vector<RowInfo>(kBatch)};
        batch.tensors.push_back({TensorSpec::contiguous("payload", kUInt8, shape), bytes.data(), owner});
        batch.computed = computed;
        EXPECT_EQ(egress_->submit(std::move(batch)), !too_late);
    }
    egress_->finish();
    EXPECT_EQ(released, 4);
    EXPECT_EQ(too_early, 0);
}

TEST_F(EgressStreamTest, DropsABatchWithoutASlabAndReportsIt) {
    std::vector<std::uint64_t> dropped;
    when_none_ = SlabExchange::WhenNone::Return;
    on_dropped_ = [&](std::uint64_t batch, std::span<const RowInfo> rows) {
        dropped.push_back(batch);
        EXPECT_EQ(rows.size(), kBatch);
    };
    start(kBatch, 1, {});
    for (std::uint64_t batch = 0; batch < kSlabs; ++batch) submit(batch);
    for (std::uint32_t slab = 0; slab < kSlabs; ++slab) next();
    submit(kSlabs);
    while (egress_->stats().batches_dropped < 1) exchange_->note_shortage();  // the broker's answer
    grant(3);
    submit(kSlabs + 1);
    const PublishedSlab after = next();
    EXPECT_THAT(dropped, ElementsAre(kSlabs));
    EXPECT_EQ(after.first_batch, kSlabs + 1);
    EXPECT_EQ(after.dropped, kBatch);
    EXPECT_EQ(after.samples, kBatch);
    egress_->finish();
    EXPECT_EQ(egress_->stats().samples_dropped, kBatch);
    EXPECT_EQ(egress_->stats().samples_unpublished(), kBatch);
}

// submit() must find the failure, and consumers stay for a successor.
TEST_F(EgressStreamTest, AFailureIsKnownInTimeAndDoesNotEndTheRun) {
    std::atomic<bool> drops{false}, is_full{false}, has_failed{false}, was_open{false};
    when_none_ = SlabExchange::WhenNone::Return;
    on_dropped_ = [&](std::uint64_t, std::span<const RowInfo>) {
        drops = true;
        is_full.wait(false);
        throw Error(ErrorKind::System, "made up");
    };
    on_failure_ = [&] {
        was_open = !egress_->wait_for_room({});
        has_failed = true;
        has_failed.notify_one();
    };
    start(kBatch, 1, {});
    for (std::uint64_t batch = 0; batch < kSlabs; ++batch) submit(batch);
    for (std::uint32_t slab = 0; slab < kSlabs; ++slab) next();
    submit(kSlabs);
    while (!drops) exchange_->note_shortage();  // the broker's answer
    for (std::uint64_t batch = kSlabs + 1; !is_full; ++batch) {
        submit(batch);
        is_full = !egress_->wait_for_room({});
    }
    is_full.notify_one();
    has_failed.wait(false);
    EXPECT_THROW(egress_->finish(), Error);
    EXPECT_TRUE(was_open);
    EXPECT_FALSE(exchange_->take().finished);
}

}  // namespace
}  // namespace offramp
