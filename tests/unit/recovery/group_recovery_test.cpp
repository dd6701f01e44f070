// The producer of a run with groups dies at a failpoint, in its own process, and this one continues its run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/error.hpp"
#include "common/shm/shared_region.hpp"
#include "common/wire/slab_view.hpp"
#include "producer/recovery/run_recovery.hpp"
#include "tests/support/awaited_stores.hpp"
#include "tests/support/held_run.hpp"
#include "tests/support/kill_points.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/unit/broker/broker_fixture.hpp"
#include "tests/unit/shm/child_process.hpp"
#include "tests/unit/shm/own_objects.hpp"

namespace offramp {
namespace {

using support::ChildProcess;
using testing::HasSubstr;

constexpr int kDied = 3;

// Ends this process at a failpoint.
struct Fuse {
    std::string_view name;  // empty: any
    int passes = 0;         // 0: never
};
std::string_view armed_name;
std::atomic<int> armed_passes{0};  // stores have threads of their own

void arm(const Fuse& fuse) {
    armed_name = fuse.name;
    armed_passes = fuse.passes;
}

constexpr GroupPolicy kDropOldest{.when_full = WhenFull::DropOldest};
constexpr std::uint32_t kRows = 4;
constexpr std::uint32_t kPool = 3;
constexpr std::uint64_t kBatches = 8;

SlabLayout layout_of_groups() {
    const std::int64_t shape[] = {kRows, 8};
    return SlabLayout::make({TensorSpec::contiguous("payload", kUInt8, shape)}, kRows);
}

// The groups whose waiting slabs go to the disk, by number, and the folder of their files.
struct Spilling {
    std::string folder;
    std::vector<std::size_t> groups{};
};

// What the run learns, also from producers that die.
struct Learned {
    std::uint64_t begun = 0;  // batches
    std::array<std::uint64_t, kBatches> completed{}, lost{}, listed{};
};

// A producer of a run with groups, over the run's own memory. The first one creates it.
struct GroupsProducer : FixtureRun {
    GroupsProducer(const RunRecovery::Layout& of, Learned& news, const Spilling& spilling = {})
        : FixtureRun(of.spans.slab_count), layout(of), learned(news), stores(stores_of(of, spilling)) {
        for (std::uint32_t i = 0; i < layout.spans.span_count; ++i)
            regions.push_back(SharedRegion::create(layout.names.span(i), layout.spans.span_bytes(i)));
        for (const ConsumerGroup& group : layout.groups)
            records.push_back(std::make_unique<RunRecords>(RunMemory(
                layout.names.of_group(group.name), layout.layout, layout.spans, layout.consumer_capacity, 1, false)));
        make_broker();
    }
    // Continues.
    GroupsProducer(const RunRecovery::Layout& of, Learned& news, RunRecovery recovery, const Spilling& spilling = {})
        : FixtureRun(of.spans.slab_count), layout(of), learned(news), stores(stores_of(of, spilling)) {
        recovery.take_up({.batch = kRows, .items = kBatches * kRows}, stores.by_group());
        whole = recovery.predecessor();
        by_group = recovery.by_group();
        records = std::move(recovery).resume();
        for (std::uint32_t i = 0; i < layout.spans.span_count; ++i)
            regions.push_back(SharedRegion::adopt(layout.names.span(i), layout.spans.span_bytes(i)));
        make_broker();
        for (pid_t pid = 11; pid < 20; ++pid) watch.end(pid);  // the first producer's consumers
        RunRecovery::continue_in(*broker, by_group);
    }

    static AwaitedStores stores_of(const RunRecovery::Layout& of, const Spilling& spilling) {
        AwaitedStores made(of.groups.size());
        for (const std::size_t group : spilling.groups) made.add(group, spilling.folder + "/" + of.groups[group].name);
        return made;
    }
    void make_broker() {
        std::vector<BrokerGroup> brokers;
        for (std::size_t i = 0; i < layout.groups.size(); ++i) {
            groups.push_back(std::make_unique<FixtureGroup>());
            const ConsumerGroup& group = layout.groups[i];
            const SlabMemory memory{[](std::uint32_t) { return true; },
                                    [this](std::uint32_t slab) { return bytes_of(slab); }};
            brokers.push_back(
                {records[i]->ledger, *groups[i]->port, groups[i]->heartbeats, memory,
                 BrokerOptions{.group = group.name,
                               .policy = group.policy,
                               .run_nonce = kNonce,
                               .allowed_uids = {1000},
                               .max_failures = 1,
                               .progress = &records[i]->progress,
                               .on_completed = [this](const auto& slab) { ++learned.completed[slab.first_batch]; },
                               .on_dead_letter = [this](const auto& slab) { ++learned.lost[slab.first_batch]; },
                               .spill = stores.by_group()[i],
                               .on_dropped =
                                   [this](const SlabTicket& ticket, std::span<const std::byte> filled) {
                                       const auto contents = SlabContents::read(filled, layout.names.nonce, ticket);
                                       ++learned.listed[contents.batches.at(0).batch];
                                   }}});
            if (!group.policy.drops_for_run()) brokers.back().options.on_dropped = nullptr;
        }
        broker = std::make_unique<Broker>(std::move(brokers), *exchange, watch, clock);
        before_step = [this] { stores.await(); };
    }
    std::span<std::byte> bytes_of(std::uint32_t slab) {
        return regions[layout.spans.span_of(slab)].bytes().subspan(layout.spans.offset_in_span(slab),
                                                                   layout.spans.slab_bytes);
    }
    void publish(std::uint64_t batch, std::uint32_t skipped = 0) {
        step();
        auto loan = exchange->wait_for_slab(SlabExchange::WhenNone::Return);
        if (!loan) return ADD_FAILURE() << "no slab for batch " << batch, void();
        fill(std::move(loan), batch, skipped);
    }
    // The egress waits for the slab, and asks for the oldest one.
    void publish_dropping(std::uint64_t batch) {
        std::optional<WriteLoan> loan;
        std::atomic<bool> has_slab{false};
        std::thread egress([&] {
            loan = exchange->wait_for_slab(SlabExchange::WhenNone::DropOldest);
            has_slab = true;
        });
        while (!has_slab) step();
        egress.join();
        fill(std::move(loan), batch, 0);
    }
    void fill(std::optional<WriteLoan> loan, std::uint64_t batch, std::uint32_t skipped) {
        SlabWriter writer(loan->bytes(), layout.layout);
        writer.begin({.run_nonce = layout.names.nonce,
                      .epoch = records.front()->memory.epoch(),
                      .slab = loan->slab(),
                      .generation = loan->generation()});
        std::vector<SampleEntry> entries;
        for (std::uint32_t row = 0; row < kRows; ++row) entries.push_back({batch * kRows + row, {}, false});
        writer.add_batch(batch, 0, entries);
        writer.finish(1);
        learned.begun = batch + 1;
        exchange->publish(std::move(*loan), {.first_batch = batch,
                                             .samples = kRows,
                                             .batches_ended = 1,
                                             .bytes = writer.tensor_rows(0, 0, kRows).size(),
                                             .items_through = (batch + 1) * kRows,
                                             .skipped = skipped,
                                             .items = {{batch * kRows, (batch + 1) * kRows}}});
        step();
    }
    // Until no slab is being written or read.
    void settle() {
        while (stores.busy()) step();
    }
    void let_it_spill() {
        step();
        advance(Spill::kPatience);
        settle();
    }
    SlabWord word(std::size_t group, std::uint32_t slab) const { return records[group]->ledger.word(slab); }

    const RunRecovery::Layout layout;
    Learned& learned;
    AwaitedStores stores;
    Predecessor whole;
    std::vector<Predecessor> by_group;
    std::vector<SharedRegion> regions;
    std::vector<std::unique_ptr<RunRecords>> records;
    std::vector<std::unique_ptr<FixtureGroup>> groups;
};

struct ProducersConsumer : JoinedConsumer {
    ProducersConsumer(GroupsProducer& producer, std::size_t its_group, pid_t its_pid, std::uint32_t its_window = 4)
        : JoinedConsumer(producer, *producer.groups[its_group], its_pid, its_window) {}
    void release_all(ReleaseKind kind = ReleaseKind::Completed) {
        receive();
        for (const SlabTicket& ticket : std::exchange(tickets, {})) release(ticket, kind);
    }
};

std::uint64_t dropped_of(const ProgressRecord& totals) { return totals.dropped / kRows; }

void check_recovered(const GroupsProducer& next, const Learned& learned) {
    for (std::uint32_t slab = 0; slab < kPool; ++slab) {
        std::vector<std::uint64_t> in_use, free;
        for (std::size_t group = 0; group < next.records.size(); ++group) {
            const SlabWord word = next.word(group, slab);
            EXPECT_NE(word.state, SlabState::Filling);
            (word.state == SlabState::Free ? free : in_use).push_back(word.generation);
        }
        for (const std::uint64_t generation : in_use) EXPECT_EQ(generation, in_use.front()) << slab;
        for (const std::uint64_t generation : free)
            EXPECT_EQ(generation, in_use.empty() ? free.front() : in_use.front() + 1) << slab;
    }
    const ProgressRecord& whole = next.whole.totals;
    const std::uint64_t published = whole.published.slabs + dropped_of(whole);
    EXPECT_LE(published, learned.begun);
    EXPECT_GE(published + 1, learned.begun);
    for (std::size_t group = 0; group < next.records.size(); ++group) {
        EXPECT_EQ(next.records[group]->memory.epoch(), next.records[0]->memory.epoch());
        const ProgressRecord totals = next.records[group]->progress.totals();
        EXPECT_EQ(totals.published.slabs + dropped_of(totals), published) << group;
        EXPECT_EQ(totals.dropped_waiting.slabs, dropped_of(totals)) << group;
        EXPECT_EQ(totals.items_through, whole.items_through) << group;
        EXPECT_EQ(totals.skipped, whole.skipped) << group;
    }
    std::uint64_t completed = 0;
    std::uint64_t lost = 0;
    std::uint64_t listed = 0;
    for (std::uint64_t batch = 0; batch < kBatches; ++batch) {
        completed += learned.completed[batch];
        lost += learned.lost[batch];
        listed += learned.listed[batch];
        EXPECT_LE(learned.lost[batch] + learned.listed[batch], 1U) << "both lost and dropped: " << batch;
    }
    // The last of them may have been counted and not learned.
    EXPECT_TRUE(whole.completed.slabs == completed || whole.completed.slabs == completed + 1) << whole.completed.slabs;
    EXPECT_TRUE(whole.dead_letters.slabs == lost || whole.dead_letters.slabs == lost + 1) << whole.dead_letters.slabs;
    // The last of them may have been listed and not counted.
    EXPECT_TRUE(dropped_of(whole) == listed || dropped_of(whole) + 1 == listed) << dropped_of(whole) << " " << listed;
    for (const PublishedSlab& slab : next.whole.in_flight)
        EXPECT_EQ(learned.completed[slab.first_batch], 0U) << slab.first_batch;
}

// The run goes on, and each batch is completed or lost once.
void finish(GroupsProducer& next, const Learned& learned) {
    EXPECT_TRUE(next.report().conserved());
    EXPECT_EQ(next.report().completed.slabs, next.whole.totals.completed.slabs);
    const std::uint64_t dropped = dropped_of(next.whole.totals);
    std::uint64_t listed_only = 0;
    for (const std::uint64_t times : learned.listed) listed_only += times;
    listed_only -= dropped;
    const std::uint64_t published = next.whole.totals.published.slabs + dropped;
    std::vector<std::unique_ptr<ProducersConsumer>> consumers;
    const auto release_all = [&] {
        for (int round = 0; round < 8; ++round)
            for (const auto& consumer : consumers) {
                consumer->release_all();
                next.settle();
            }
    };
    for (std::size_t group = 0; group < next.groups.size(); ++group)
        consumers.push_back(std::make_unique<ProducersConsumer>(next, group, 20 + static_cast<pid_t>(group)));
    release_all();
    for (std::uint64_t batch = published; batch < published + 2; ++batch) {
        next.publish(batch);
        release_all();
    }
    next.exchange->finish();
    next.step();
    for (const auto& consumer : consumers) consumer->send(Disconnect{consumer->welcome->session});
    next.step();
    EXPECT_TRUE(next.broker->ended());
    const BrokerReport report = next.report();
    EXPECT_EQ(report.published.slabs, published + 2 - dropped);
    EXPECT_EQ(report.in_flight.slabs, 0U);
    EXPECT_EQ(report.completed.slabs + report.dead_lettered.slabs, published + 2 - dropped);
    EXPECT_TRUE(report.conserved());
    std::uint64_t not_learned = 0;
    std::uint64_t completed_and_listed = 0;
    for (std::uint64_t batch = 0; batch < published + 2; ++batch) {
        EXPECT_LE(learned.completed[batch] + learned.lost[batch], 1U) << batch;
        not_learned += learned.completed[batch] + learned.lost[batch] + learned.listed[batch] == 0 ? 1U : 0U;
        completed_and_listed += learned.completed[batch] == 1 && learned.listed[batch] > 0 ? 1U : 0U;
    }
    EXPECT_LE(not_learned, 1U) << "only the completion that was counted last";
    EXPECT_LE(completed_and_listed, listed_only) << "a dropped batch is not completed";
}

class GroupRecovery : public testing::Test {
  protected:
    // A process that arms the fuse, does this, and dies: by the fuse, or at the end. False: at the end.
    bool dies(Fuse fuse, const std::function<void()>& work) {
        ChildProcess child([&](int) -> int {
            arm(fuse);
            work();
            ::_exit(testing::Test::HasFailure() ? 1 : 0);
        });
        const int status = child.wait();
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 1) << status;
        return WIFEXITED(status) && WEXITSTATUS(status) == kDied;
    }
    bool producer_dies(Fuse fuse, const std::function<void(GroupsProducer&)>& work) {
        return dies({}, [&] {
            GroupsProducer producer(layout_, *learned_, spilling_);
            arm(fuse);
            work(producer);
            ::_exit(0);
        });
    }
    RunRecovery recover() { return RunRecovery(layout_); }
    std::unique_ptr<GroupsProducer> go_on() {
        return std::make_unique<GroupsProducer>(layout_, *learned_, recover(), spilling_);
    }
    void begin_again() {
        run_.emplace(support::own_run("groups"));
        layout_.names = run_->names();
        *learned_ = {};
        for (const auto& group : layout_.groups) std::filesystem::remove_all(folder_.path() + "/" + group.name);
    }
    // At each failpoint (a sanitizer: at some), which are this many at least; once more without a death.
    void producers_die(const std::function<void(GroupsProducer&)>& work, int least_failpoints) {
        ASSERT_FALSE(producer_dies({}, work));
        begin_again();
        int passes = 1;
        for (; producer_dies({"", passes}, work); passes += test::kill_one_in()) {
            SCOPED_TRACE(passes);
            const auto next = go_on();
            check_recovered(*next, *learned_);
            finish(*next, *learned_);
            if (HasFailure()) return;
            begin_again();
        }
        EXPECT_GT(passes, least_failpoints) << "the failpoints of this history";
    }
    void recoveries_die(const std::function<void(GroupsProducer&)>& work) {
        int in_recovery = 1;
        for (int passes = 1; producer_dies({"", passes}, work); passes += test::kill_one_in()) {
            SCOPED_TRACE(std::to_string(passes) + ", then " + std::to_string(in_recovery));
            in_recovery = dies({"", in_recovery}, [&] { go_on(); }) ? in_recovery + 1 : 1;
            const auto next = go_on();
            check_recovered(*next, *learned_);
            finish(*next, *learned_);
            if (HasFailure()) return;
            begin_again();
        }
    }

    const test::ScratchFolder folder_{test::ScratchFolder::On::Memory};
    Spilling spilling_{folder_.path()};
    struct Unmap {
        void operator()(Learned* memory) const { ::munmap(memory, sizeof *memory); }
    };
    std::unique_ptr<Learned, Unmap> learned_{
        new (::mmap(nullptr, sizeof(Learned), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Learned};
    std::optional<HeldRun> run_{support::own_run("groups")};
    RunRecovery::Layout layout_{
        run_->names(), layout_of_groups(), SpanPlan::make(kPool, layout_of_groups().slab_bytes), 8, {{"a"}, {"b"}}};
};

// --- publication, acquisition, abandonment ---

struct DeathAt {
    const char* failpoint;
    int pass;
};

TEST_F(GroupRecovery, APublicationThatTheFirstGroupCountedIsCompleted) {
    layout_.groups = {{"a"}, {"b"}, {"c", {.optional = true}}};
    for (const DeathAt& death : {DeathAt{"ledger.publish", 1},
                                 {"ledger.ready", 1},
                                 {"progress.written", 2},
                                 {"ledger.publish", 2},
                                 {"ledger.ready", 2},
                                 {"progress.written", 3},
                                 {"ledger.publish", 3},
                                 {"ledger.ready", 3}}) {
        SCOPED_TRACE(std::string(death.failpoint) + " " + std::to_string(death.pass));
        begin_again();
        ASSERT_TRUE(
            producer_dies({death.failpoint, death.pass}, [](GroupsProducer& producer) { producer.publish(0, 5); }));
        const auto next = go_on();
        for (std::size_t group = 0; group < layout_.groups.size(); ++group) {
            EXPECT_EQ(next->word(group, 0), (SlabWord{SlabState::Ready, 0, 1})) << group;
            const ProgressRecord totals = next->records[group]->progress.totals();
            EXPECT_EQ(totals.published.slabs, 1U) << group;
            EXPECT_EQ(totals.published.samples, kRows) << group;
            EXPECT_EQ(totals.published.batches, 1U) << group;
            EXPECT_EQ(totals.items_through, kRows) << group;
            EXPECT_EQ(totals.skipped, 5U) << group;
            ASSERT_EQ(next->by_group[group].in_flight.size(), 1U) << group;
        }
        EXPECT_EQ(next->whole.in_flight.size(), 1U);
        EXPECT_EQ(next->whole.totals.published.slabs, 1U);
        EXPECT_EQ(next->whole.totals.completed.slabs, 0U);
    }
}

TEST_F(GroupRecovery, WhatTheFirstGroupHasNotCountedIsFreeInAll) {
    const auto publish = [](GroupsProducer& producer) { producer.publish(0); };
    const auto abandon = [](GroupsProducer& producer) {
        producer.step();
        producer.exchange->wait_for_slab().reset();
        producer.step();
    };
    const std::vector<std::pair<DeathAt, std::function<void(GroupsProducer&)>>> deaths{
        {{"progress.written", 1}, publish}, {{"ledger.filling", 1}, publish}, {{"ledger.filling", 2}, publish},
        {{"ledger.abandon", 1}, abandon},   {{"ledger.free", 1}, abandon},    {{"ledger.abandon", 2}, abandon},
        {{"ledger.free", 2}, abandon}};
    for (const auto& [death, work] : deaths) {
        SCOPED_TRACE(std::string(death.failpoint) + " " + std::to_string(death.pass));
        begin_again();
        ASSERT_TRUE(producer_dies({death.failpoint, death.pass}, work));
        const auto next = go_on();
        for (std::size_t group = 0; group < layout_.groups.size(); ++group) {
            EXPECT_EQ(next->word(group, 0), (SlabWord{SlabState::Free, 0, 2})) << group;
            EXPECT_EQ(next->records[group]->progress.totals().published.slabs, 0U) << group;
        }
        EXPECT_TRUE(next->whole.in_flight.empty());
    }
}

// --- epochs and generations ---

TEST_F(GroupRecovery, RaisesTheEpochsOfAllGroupsToTheLatest) {
    producer_dies({}, [](GroupsProducer& producer) { producer.publish(0); });
    // The first group's memory is taken over, the second's is not.
    ASSERT_TRUE(dies({"adopt.producer_named", 1}, [&] { recover(); }));
    const auto next = go_on();
    for (const auto& records : next->records) EXPECT_EQ(records->memory.epoch(), 3U);
    EXPECT_EQ(next->whole.in_flight.size(), 1U);
}

TEST_F(GroupRecovery, RefusesGroupsWithDifferentGenerationsOfASlab) {
    producer_dies({}, [](GroupsProducer& producer) {
        producer.publish(0);
        for (int i = 0; i < 2; ++i)
            producer.records[1]->ledger.vacate(0), producer.records[1]->ledger.acquire_also(0),
                producer.records[1]->ledger.publish(0);
    });
    RunRecovery recovery = recover();
    try {
        recovery.take_up({.batch = kRows, .items = kBatches * kRows});
        FAIL() << "not refused";
    } catch (const Error& problem) {
        EXPECT_EQ(problem.kind(), ErrorKind::Protocol);
        EXPECT_THAT(problem.what(), HasSubstr("slab 0 has generation 3 in one group and 1 in another"));
    }
}

// --- dead letters ---

// Before it is marked in the other group, or after; and before the slab is a dead letter in its own.
TEST_F(GroupRecovery, ASlabThatWasCountedAsLostStaysLost) {
    for (const bool is_marked : {false, true}) {
        SCOPED_TRACE(is_marked);
        begin_again();
        producer_dies({"ledger.dead_letter", 1}, [&](GroupsProducer& producer) {
            producer.publish(0);
            const PublishedSlab slab{
                .slab = 0, .samples = kRows, .batches_ended = 1, .bytes = kRows * 8, .items_through = kRows};
            if (!is_marked) return producer.records[0]->progress.count(CountedStep::DeadLetter, slab, 1);
            ProducersConsumer crashing(producer, 0, 11);
            crashing.receive();
            crashing.work_on(crashing.tickets.at(0));
            crashing.die();
        });
        const auto next = go_on();
        EXPECT_EQ(next->by_group[0].dead_letters.size(), 1U);
        EXPECT_EQ(next->by_group[1].in_flight.size(), 1U);
        EXPECT_EQ(next->whole.totals.dead_letters.slabs, 1U);
        EXPECT_EQ(next->whole.totals.completed.slabs, 0U);
        EXPECT_TRUE(next->records[1]->ledger.is_lost(0));
        ProducersConsumer b(*next, 1, 22);
        b.release_all();
        EXPECT_EQ(learned_->completed[0], 0U);
        EXPECT_EQ(next->report().completed.slabs, 0U);
        EXPECT_EQ(next->report().dead_lettered.slabs, 1U);
        EXPECT_EQ(next->report().groups.at(1).completed.slabs, 1U);
        EXPECT_TRUE(next->report().conserved());
    }
}

// --- any failpoint ---

// Every kind of step: completions in either order, a drop, a dead letter, a return, an abandoned slab, slabs in flight.
void produce(GroupsProducer& producer) {
    ProducersConsumer a(producer, 0, 11), b(producer, 1, 12);
    producer.publish(0);
    a.release_all();
    b.release_all();
    producer.step();
    producer.exchange->wait_for_slab().reset();
    producer.publish(1);
    a.receive();
    a.work_on(a.tickets.at(0));
    a.die();
    b.release_all();
    ProducersConsumer next(producer, 0, 13);
    producer.publish(2, 3);
    b.release_all();
    next.release_all(ReleaseKind::Returned);
    producer.advance(std::chrono::seconds(1));
    next.release_all();
    producer.publish(3);
    next.release_all();
    b.release_all();
    producer.publish(4);
    ProducersConsumer extra(producer, 2, 14);
    extra.release_all();
    next.release_all();
    producer.publish(5);
}

TEST_F(GroupRecovery, AnyDeathOfAProducerCostsNothing) {
    layout_.groups = {{"a"}, {"b"}, {"extra", {.optional = true}}};
    producers_die(produce, 60);
    EXPECT_EQ(learned_->lost[1], 1U);
}

TEST_F(GroupRecovery, AnyDeathOfARecoveryCostsNothing) {
    layout_.groups = {{"a"}, {"b"}, {"extra", {.optional = true}}};
    recoveries_die(produce);
}

// --- groups that drop ---

// Drops in one group and in two, of a slab that is lost and of others.
void produce_dropping(GroupsProducer& producer) {
    ProducersConsumer a(producer, 0, 11);
    for (std::uint64_t batch = 0; batch < 3; ++batch) {
        producer.publish(batch);
        a.release_all();
    }
    producer.publish_dropping(3);
    a.release_all();
    ProducersConsumer b(producer, 1, 12, 1);
    b.receive();
    b.work_on(b.tickets.at(0));
    b.die();
    ProducersConsumer next(producer, 1, 13);
    next.release_all();
    producer.publish_dropping(4);
    a.release_all();
    producer.publish_dropping(5);
}

TEST_F(GroupRecovery, AnyDeathOfAProducerThatDropsCostsNothing) {
    layout_.groups = {{"a"}, {"b", kDropOldest}, {"c", kDropOldest}, {"extra", {.optional = true}}};
    producers_die(produce_dropping, 60);
    EXPECT_EQ(learned_->lost[1], 1U);
    EXPECT_THAT(learned_->listed, testing::ElementsAre(1, 0, 1, 0, 0, 0, 0, 0));
}

TEST_F(GroupRecovery, AnyDeathOfARecoveryOfDroppedSlabsCostsNothing) {
    layout_.groups = {{"a"}, {"b", kDropOldest}, {"c", kDropOldest}, {"extra", {.optional = true}}};
    recoveries_die(produce_dropping);
}

// --- groups that spill ---

// Two groups spill. One of them loses a slab that is on the disk for the other; the slabs' memory is used again.
void produce_to_disk(GroupsProducer& producer) {
    ProducersConsumer a(producer, 0, 11);
    for (std::uint64_t batch = 0; batch < 4; ++batch) {
        if (batch == kPool) producer.let_it_spill();
        producer.publish(batch);
        a.release_all();
    }
    producer.let_it_spill();
    producer.exchange->wait_for_slab().reset();
    ProducersConsumer b(producer, 1, 12, 1), c(producer, 2, 13, 1);
    const auto serve = [&](ProducersConsumer& consumer) {
        consumer.receive();
        if (consumer.tickets.empty()) return;
        const SlabTicket ticket = consumer.tickets.front();
        consumer.tickets.clear();
        consumer.release(ticket);
        producer.settle();
    };
    for (int i = 0; i < 2; ++i) serve(b), serve(c);  // what is in memory
    serve(b);                                        // batch 0
    b.receive();
    b.work_on(b.tickets.at(0));  // batch 1
    b.die();
    producer.settle();
    producer.publish(4);
    a.release_all();
    for (int i = 0; i < 3; ++i) serve(c);
    producer.publish(5);
}

TEST_F(GroupRecovery, AnyDeathOfAProducerThatSpillsCostsNothing) {
    layout_.groups = {{"a"}, {"b"}, {"c"}};
    spilling_.groups = {1, 2};
    producers_die(produce_to_disk, 100);
    EXPECT_EQ(learned_->lost[1], 1U);
}

// The first group's counts decide on publications.
TEST_F(GroupRecovery, TheFirstGroupMaySpill) {
    layout_.groups = {{"b"}, {"c"}, {"a"}};
    spilling_.groups = {0, 1};
    producers_die(
        [](GroupsProducer& producer) {
            ProducersConsumer a(producer, 2, 11);
            for (std::uint64_t batch = 0; batch < 4; ++batch) {
                if (batch == kPool) producer.let_it_spill();
                producer.publish(batch);
                a.release_all();
            }
            producer.let_it_spill();
            ProducersConsumer b(producer, 0, 12, 1), c(producer, 1, 13, 4);
            c.release_all();
            b.receive();
            b.work_on(b.tickets.at(0));
            producer.settle();
        },
        50);
}

TEST_F(GroupRecovery, AnyDeathOfARecoveryOfSpilledSlabsCostsNothing) {
    layout_.groups = {{"a"}, {"b"}, {"c"}};
    spilling_.groups = {1, 2};
    recoveries_die(produce_to_disk);
}

// --- groups that drop and groups that spill ---

// Group b drops a slab that is on the disk for c, and one that c has read back into another slab.
void produce_dropping_and_spilling(GroupsProducer& producer) {
    const auto step = [&] {
        for (int i = 0; i < 3; ++i) {
            producer.step();
            producer.settle();
        }
    };
    ProducersConsumer a(producer, 0, 11);
    for (std::uint64_t batch = 0; batch < kPool; ++batch) {
        producer.publish(batch);
        a.release_all();
    }
    producer.let_it_spill();
    producer.publish_dropping(3);  // batch 0 is dropped
    a.release_all();
    step();
    const auto finish_next = [&](ProducersConsumer& consumer) {
        consumer.receive();
        const SlabTicket ticket = consumer.tickets.at(0);
        consumer.tickets.clear();
        consumer.release(ticket);
        step();
    };
    ProducersConsumer extra(producer, 3, 12), holding(producer, 1, 13, 1), b(producer, 1, 14, 1);
    for (std::uint64_t batch = 1; batch < 4; ++batch) extra.release_all();
    extra.die();
    finish_next(b);  // batch 2
    finish_next(b);  // batch 3
    b.die();
    ProducersConsumer c(producer, 2, 15, 1);
    step();
    finish_next(c);  // batch 0
    holding.die();   // batch 1, which c has, too
    step();
    producer.publish(4);
    a.release_all();
    step();
    producer.publish_dropping(5);  // batch 1 is dropped
    a.release_all();
    step();
    finish_next(c);
}

TEST_F(GroupRecovery, AnyDeathOfAProducerThatDropsAndSpillsCostsNothing) {
    layout_.groups = {{"a"}, {"b", kDropOldest}, {"c"}, {"extra", {.optional = true}}};
    spilling_.groups = {2};
    producers_die(produce_dropping_and_spilling, 100);
    EXPECT_THAT(learned_->listed, testing::ElementsAre(1, 1, 0, 0, 0, 0, 0, 0));
    EXPECT_THAT(learned_->completed, testing::ElementsAre(0, 0, 0, 0, 0, 0, 0, 0));
}

TEST_F(GroupRecovery, AnyDeathOfARecoveryOfDroppedAndSpilledSlabsCostsNothing) {
    layout_.groups = {{"a"}, {"b", kDropOldest}, {"c"}, {"extra", {.optional = true}}};
    spilling_.groups = {2};
    recoveries_die(produce_dropping_and_spilling);
}

// Groups a and b have dead letters on different slabs.
TEST_F(GroupRecovery, DeadLettersOfSeveralGroupsAddUp) {
    producer_dies({}, [](GroupsProducer& producer) {
        for (std::uint64_t batch = 0; batch < 2; ++batch) {
            ProducersConsumer a(producer, 0, 11 + static_cast<pid_t>(2 * batch));
            ProducersConsumer b(producer, 1, 12 + static_cast<pid_t>(2 * batch));
            producer.publish(batch);
            ProducersConsumer& crashing = batch == 0 ? a : b;
            (batch == 0 ? b : a).release_all();
            crashing.receive();
            crashing.work_on(crashing.tickets.at(0));
            crashing.die();
            for (ProducersConsumer* consumer : {&a, &b})
                if (consumer != &crashing) consumer->send(Disconnect{consumer->welcome->session});
        }
        EXPECT_EQ(producer.report().dead_lettered.slabs, 2U);
    });
    const auto next = go_on();
    EXPECT_EQ(next->whole.totals.dead_letters.slabs, 2U);
    EXPECT_EQ(next->whole.totals.dead_letters.samples, 2 * kRows);
    EXPECT_EQ(next->whole.totals.completed.slabs, 0U);
    EXPECT_EQ(next->report().dead_lettered.slabs, 2U);
    EXPECT_EQ(next->report().completed.slabs, 0U);
    EXPECT_TRUE(next->report().conserved());
}

}  // namespace
}  // namespace offramp

// Found by name: common/base/failpoint.cpp.
extern "C" __attribute__((visibility("default"))) void offramp_failpoint_reached(const char* name) {
    using namespace offramp;
    if (armed_passes > 0 && (armed_name.empty() || armed_name == name) && --armed_passes == 0) ::_exit(kDied);
}
