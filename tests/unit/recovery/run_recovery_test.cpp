// A producer dies in its own process, and this one continues its run.

#include "producer/recovery/run_recovery.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/error.hpp"
#include "common/shm/shared_region.hpp"
#include "common/wire/slab_view.hpp"
#include "tests/support/held_run.hpp"
#include "tests/unit/shm/child_process.hpp"
#include "tests/unit/shm/own_objects.hpp"
#include "tests/unit/transport/temporary_folder.hpp"

namespace offramp {
namespace {

using support::ChildProcess;
using support::TemporaryFolder;
using ::testing::HasSubstr;

constexpr std::uint32_t kBatch = 4;
constexpr std::uint64_t kItems = 40;
constexpr std::uint32_t kSlabs = 4;
constexpr std::uint32_t kConsumers = 2;
constexpr std::uint32_t kFirstEpoch = 1;

SlabLayout one_batch_a_slab() {
    const std::int64_t shape[] = {kBatch, 8};
    return SlabLayout::make({TensorSpec::contiguous("payload", kUInt8, shape)}, kBatch);
}

// The memory of a run's producer.
struct Producer {
    explicit Producer(const RunNames& run)
        : names(run), records(RunMemory(names, layout, spans, kConsumers, kFirstEpoch, false)) {
        for (std::uint32_t i = 0; i < spans.span_count; ++i)
            regions.push_back(SharedRegion::create(names.span(i), spans.span_bytes(i)));
        records.memory.progress().producers = 1;
    }
    std::uint32_t begin_filling() {
        return records.ledger.acquire([](std::uint32_t) { return true; }).value();
    }
    PublishedSlab publish(std::uint64_t batch) {
        const std::uint32_t slab = begin_filling();
        SlabWriter writer(bytes_of(slab), layout);
        writer.begin({.run_nonce = names.nonce,
                      .epoch = kFirstEpoch,
                      .slab = slab,
                      .generation = records.ledger.word(slab).generation});
        std::vector<SampleEntry> entries;
        for (std::uint32_t row = 0; row < kBatch; ++row) entries.push_back({batch * kBatch + row, {}, false});
        writer.add_batch(batch, 0, entries);
        writer.finish(1);
        const PublishedSlab published{.slab = slab,
                                      .first_batch = batch,
                                      .samples = kBatch,
                                      .batches_ended = 1,
                                      .bytes = writer.tensor_rows(0, 0, kBatch).size(),
                                      .items_through = (batch + 1) * kBatch,
                                      .items = {{batch * kBatch, (batch + 1) * kBatch}}};
        records.progress.count(CountedStep::Publish, published, records.ledger.word(slab).generation);
        records.ledger.publish(slab);
        return published;
    }
    std::span<std::byte> bytes_of(std::uint32_t slab) {
        return regions[spans.span_of(slab)].bytes().subspan(spans.offset_in_span(slab), spans.slab_bytes);
    }

    RunNames names;
    SlabLayout layout = one_batch_a_slab();
    SpanPlan spans = SpanPlan::make(kSlabs, layout.slab_bytes);
    RunRecords records;
    std::vector<SharedRegion> regions;
};

class RunRecoveryTest : public ::testing::Test {
  protected:
    // A producer that does this and dies without clean-up.
    void die_after(const std::function<void(Producer&)>& work) {
        ChildProcess producer([&](int) -> int {
            Producer running(run_.names());
            work(running);
            ::_exit(0);
        });
        ASSERT_EQ(producer.wait(), 0);
    }
    RunRecovery recover() { return RunRecovery(layout_); }
    static ErrorKind code_of(const std::function<void()>& work, std::string* text = nullptr) {
        try {
            work();
        } catch (const Error& problem) {
            if (text != nullptr) *text = problem.what();
            return problem.kind();
        }
        return ErrorKind::None;
    }

    HeldRun run_{support::own_run("recovery")};
    RunRecovery::Layout layout_{run_.names(), one_batch_a_slab(), SpanPlan::make(kSlabs, one_batch_a_slab().slab_bytes),
                                kConsumers};
    const BatchNumbers numbers_{.batch = kBatch, .items = kItems};
};

TEST_F(RunRecoveryTest, ContinuesWithSlabsInFlightInPublicationOrder) {
    die_after([](Producer& producer) {
        producer.publish(0);
        producer.publish(1);
        const auto consumer = producer.records.ledger.admit(1, 1, 1, 1);
        producer.records.ledger.lease(1, *consumer);
        producer.begin_filling();
    });
    RunRecovery recovery = recover();
    EXPECT_EQ(recovery.epoch(), kFirstEpoch + 1);
    EXPECT_EQ(recovery.progress().producers, 1U);
    recovery.take_up(numbers_);
    const Predecessor left = recovery.predecessor();
    ASSERT_EQ(left.in_flight.size(), 2U);
    EXPECT_EQ(left.in_flight[0].first_batch, 0U);
    EXPECT_EQ(left.in_flight[1].first_batch, 1U);
    EXPECT_EQ(left.in_flight[1].samples, kBatch);
    EXPECT_EQ(left.totals.items_through, 2 * kBatch);
    EXPECT_EQ(left.waiting().list(), (std::vector<ItemRange>{{0, 2 * kBatch}}));
    const auto by_group = std::move(recovery).resume();
    const auto& records = by_group.front();
    EXPECT_EQ(records->memory.progress().producers, 2U);
    EXPECT_EQ(records->ledger.word(1).state, SlabState::Leased);
    EXPECT_EQ(records->ledger.count(SlabState::Filling), 0U) << "abandoned";
    EXPECT_EQ(records->progress.totals().published.samples, 2 * kBatch);
}

TEST_F(RunRecoveryTest, FindsTheItemsOfSmallerBatches) {
    die_after([](Producer& producer) {
        producer.publish(0);
        producer.publish(1);
    });
    RunRecovery recovery = recover();
    recovery.take_up({.batch = 4 * kBatch, .items = kItems, .starts = {0, kBatch, 2 * kBatch}});
    const Predecessor left = recovery.predecessor();
    EXPECT_EQ(left.in_flight[0].batches_ended, 1U);
    EXPECT_EQ(left.in_flight[0].items_through, kBatch);
    EXPECT_EQ(left.in_flight[1].batches_ended, 1U);
    EXPECT_EQ(left.in_flight[1].items_through, 2 * kBatch);
}

TEST_F(RunRecoveryTest, KeepsTheSlabBytesOfTheDeadProducer) {
    die_after([](Producer& producer) {
        const PublishedSlab published = producer.publish(3);
        producer.bytes_of(published.slab).back() = std::byte{42};
    });
    RunRecovery recovery = recover();
    recovery.take_up(numbers_);
    const std::uint32_t slab = recovery.predecessor().in_flight.front().slab;
    const auto records = std::move(recovery).resume();
    const auto pool = RunRecovery::take_slabs(layout_.names, layout_.spans, {}, false, {[] {}, [](auto) {}});
    pool->wait_until_all_usable();
    EXPECT_EQ(pool->bytes_of(slab).back(), std::byte{42});
}

TEST_F(RunRecoveryTest, DoesNotTakeARunFromALivingProducer) {
    Producer running(run_.names());
    running.publish(0);
    EXPECT_EQ(code_of([&] { recover(); }), ErrorKind::RunInUse);
    EXPECT_EQ(running.records.memory.epoch(), kFirstEpoch);
}

TEST_F(RunRecoveryTest, RefusesAnotherLayoutAndNamesTheField) {
    die_after([](Producer& producer) { producer.publish(0); });
    RunRecovery::Layout other = layout_;
    other.spans = SpanPlan::make(kSlabs + 1, other.layout.slab_bytes);
    std::string text;
    EXPECT_EQ(code_of([&] { RunRecovery refused(other); }, &text), ErrorKind::Protocol);
    EXPECT_THAT(text, HasSubstr("slab_count is 4, this producer's would be 5"));
    EXPECT_EQ(recover().epoch(), kFirstEpoch + 1) << "a refusal uses no epoch";
}

// A producer that dies or is refused in the middle leaves a recoverable run.
TEST_F(RunRecoveryTest, RefusesAContradictingRecordWithoutLoss) {
    die_after([](Producer& producer) {
        const PublishedSlab published = producer.publish(0);
        producer.records.progress.count(CountedStep::Complete, published, 7);  // of a generation that never existed
    });
    ChildProcess refuses([&](int) -> int {
        std::string text;
        const ErrorKind code = code_of(
            [&] {
                RunRecovery recovery = recover();
                recovery.take_up(numbers_);
            },
            &text);
        ::_exit(code == ErrorKind::CountMismatch && text.find("4 in 1 completed") != std::string::npos ? 0 : 1);
    });
    EXPECT_EQ(refuses.wait(), 0);
    RunRecovery next = recover();
    EXPECT_EQ(next.epoch(), kFirstEpoch + 2);
    EXPECT_EQ(next.progress().producers, 1U) << "it did not continue the run";
}

TEST_F(RunRecoveryTest, RefusesASlabOfItemsBeyondTheSource) {
    die_after([](Producer& producer) { producer.publish(5); });
    RunRecovery recovery = recover();
    std::string text;
    EXPECT_EQ(code_of([&] { recovery.take_up({.batch = kBatch, .items = 8}); }, &text), ErrorKind::Protocol);
    EXPECT_THAT(text, HasSubstr("holds batch 5, but the source has only 8 items"));
}

// The file of a slab that was not freed yet is a copy; otherwise it is the only one.
TEST_F(RunRecoveryTest, CountsASlabAndItsSpillFileOnce) {
    const TemporaryFolder folder;
    die_after([&](Producer& producer) {
        SpillStore store(folder.path(), [] {});
        const auto spill = [&](const PublishedSlab& published) {
            store.write(published.slab, producer.records.ledger.word(published.slab).generation,
                        producer.bytes_of(published.slab));
            while (!store.take_outcome()) std::this_thread::yield();
        };
        const PublishedSlab freed = producer.publish(0), kept = producer.publish(1);
        spill(freed);
        producer.records.ledger.vacate(freed.slab);
        spill(kept);
    });
    const auto store = std::make_shared<SpillStore>(folder.path(), [] {});
    RunRecovery recovery = recover();
    recovery.take_up(numbers_, {&store, 1});
    const Predecessor& left = recovery.predecessor();
    ASSERT_EQ(left.spilled.size(), 1U);
    EXPECT_EQ(left.spilled.front().published.first_batch, 0U);
    ASSERT_EQ(left.in_flight.size(), 1U);
    EXPECT_EQ(left.in_flight.front().first_batch, 1U);
    EXPECT_EQ(store->left_there().size(), 1U) << "the copy was removed";
    EXPECT_EQ(left.waiting().items(), 2 * kBatch);
}

// It was counted as dropped, and died before its slab was free.
TEST_F(RunRecoveryTest, FinishesADrop) {
    die_after([](Producer& producer) {
        const PublishedSlab dropped = producer.publish(0);
        producer.publish(1);
        producer.records.progress.count(CountedStep::Drop, dropped,
                                        producer.records.ledger.word(dropped.slab).generation);
    });
    RunRecovery recovery = recover();
    recovery.take_up(numbers_);
    const Predecessor& left = recovery.predecessor();
    ASSERT_EQ(left.in_flight.size(), 1U);
    EXPECT_EQ(left.in_flight.front().first_batch, 1U);
    EXPECT_EQ(left.totals.published.samples, kBatch);
    EXPECT_EQ(left.totals.dropped, kBatch);
}

TEST_F(RunRecoveryTest, FindsARunByDirectoryAndId) {
    const support::TemporaryRunFolder folder;
    EXPECT_EQ(code_of([&] { RunRecovery::find(folder.path(), "some"); }), ErrorKind::NoSuchRun);
    Endpoint{.run_dir = folder.path(), .names = run_.names(), .producer_pid = 1, .epoch = 3}.publish();
    EXPECT_EQ(RunRecovery::find(folder.path(), run_.names().run_id).epoch, 3U);
    std::string text;
    EXPECT_EQ(code_of([&] { RunRecovery::find(folder.path(), "another"); }, &text), ErrorKind::Usage);
    EXPECT_THAT(text, HasSubstr("'another'"));
}

}  // namespace
}  // namespace offramp
