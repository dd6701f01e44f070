// Groups of consumers whose waiting slabs go to the disk.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/broker/groups_fixture.hpp"

namespace offramp {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class BrokerGroupsSpill : public testing::Test {
  protected:
    ~BrokerGroupsSpill() override {
        f_.reset();
        std::filesystem::remove_all(folder_);
    }
    // `spilling`: names of the groups that spill.
    GroupsFixture& start(std::uint32_t slabs, const std::vector<ConsumerGroup>& of, const std::string& spilling,
                         const BrokerOptions& options = {}) {
        AwaitedStores stores(of.size());
        for (std::size_t group = 0; group < of.size(); ++group)
            if (spilling.find(of[group].name) != std::string::npos) stores.add(group, folder_ + "/" + of[group].name);
        f_ = std::make_unique<GroupsFixture>(slabs, of, options, stores);
        return *f_;
    }
    // Fills a slab, which has its batch's number as its bytes.
    void publish(std::uint64_t batch) {
        ASSERT_TRUE(f_->can_fill()) << batch;
        auto loan = f_->exchange->wait_for_slab();
        for (std::byte& byte : loan->bytes()) byte = static_cast<std::byte>(batch);
        f_->exchange->publish(
            std::move(*loan),
            {.first_batch = batch, .samples = 4, .batches_ended = 1, .bytes = 40, .items_through = (batch + 1) * 4});
        f_->step();
    }
    // The egress is short for long enough.
    void let_it_spill() {
        f_->step();
        f_->advance(Spill::kPatience);
        f_->settle();
    }
    // Slabs come back from the disk, as far as there is memory.
    void let_it_read() {
        for (int i = 0; i < 3; ++i) {
            f_->step();
            f_->settle();
        }
    }
    std::vector<std::string> files(const std::string& group) const {
        std::vector<std::string> names;
        for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/" + group))
            names.push_back(entry.path().filename().string());
        return names;
    }
    std::uint64_t batch_in(const SlabTicket& ticket) const {
        return static_cast<std::uint64_t>(f_->bytes_of(ticket.slab)[FixtureRun::kSlabBytes - 1]);
    }
    // The batches that this consumer gets, each of which it completes.
    std::vector<std::uint64_t> process_all(GroupConsumer& consumer) {
        std::vector<std::uint64_t> batches;
        const auto receive = [&] {
            let_it_read();
            consumer.receive();
        };
        for (receive(); !consumer.tickets.empty(); receive()) {
            batches.push_back(batch_in(consumer.tickets[0]));
            consumer.release_next();
        }
        return batches;
    }
    // In use in the same generation, and one further where it is free.
    void expect_same_generations() const {
        for (std::uint32_t slab = 0; slab < f_->groups[0]->entries.size(); ++slab) {
            const auto next = [slab](const auto& group) {
                const SlabWord word = group->ledger.word(slab);
                return word.generation + (word.state == SlabState::Free ? 0 : 1);
            };
            for (const auto& group : f_->groups) EXPECT_EQ(next(group), next(f_->groups[0])) << slab;
        }
    }
    GroupReport report_of(std::size_t group) const { return f_->report().groups.at(group); }

    const std::string folder_ = testing::TempDir() + "broker_groups_spill_test." + std::to_string(::getpid());
    std::unique_ptr<GroupsFixture> f_;
};

TEST_F(BrokerGroupsSpill, AGroupWithoutConsumersHoldsNoSlabAndMissesNone) {
    GroupsFixture& f = start(3, {{"a"}, {"slow"}}, "slow");
    GroupConsumer a(f, 0, 11);
    for (std::uint64_t batch = 0; batch < 10; ++batch) {
        if (!f.can_fill()) let_it_spill();
        publish(batch);
        a.release_next();
        expect_same_generations();
        ASSERT_TRUE(f.report().conserved()) << batch;
    }
    f.settle();
    EXPECT_EQ(report_of(0).completed.slabs, 10U);
    EXPECT_GE(report_of(1).spilled.slabs, 7U);
    EXPECT_EQ(files("slow").size(), report_of(1).spilled.slabs);
    EXPECT_EQ(f.report().in_flight.slabs, 10U);
    EXPECT_THAT(f.completed, IsEmpty());

    GroupConsumer slow(f, 1, 12);
    f.exchange->finish();
    f.step();
    a.send(Disconnect{a.welcome->session});
    EXPECT_FALSE(f.broker->ended());
    const std::vector<std::uint64_t> batches = process_all(slow);
    EXPECT_THAT(batches, UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
    EXPECT_THAT(f.completed, UnorderedElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
    expect_same_generations();
    EXPECT_THAT(files("slow"), IsEmpty());
    slow.send(Disconnect{slow.welcome->session});
    EXPECT_TRUE(f.broker->ended());
    const BrokerReport report = f.report();
    EXPECT_EQ(report.completed.slabs, 10U);
    EXPECT_EQ(report.in_flight.slabs, 0U);
    EXPECT_GE(report.ever_spilled.slabs, 7U);
    EXPECT_EQ(report.groups.at(1).spilled.slabs, 0U);
    EXPECT_TRUE(report.conserved());
}

TEST_F(BrokerGroupsSpill, SpillsOnlyAfterAMoment) {
    GroupsFixture& f = start(1, {{"a"}, {"slow"}}, "slow");
    GroupConsumer a(f, 0, 11);
    publish(0);
    a.release_next();
    f.advance(Spill::kPatience - milliseconds(1));
    f.settle();
    EXPECT_THAT(files("slow"), IsEmpty()) << "consumers get a moment first";
    f.advance(milliseconds(1));
    f.settle();
    EXPECT_THAT(files("slow"), ElementsAre("slab-0-1.spill"));
    EXPECT_TRUE(f.can_fill());
}

// The next slabs are spilled without that delay, so that the other group keeps its rate.
TEST_F(BrokerGroupsSpill, KeepsSpillingWhileTheEgressIsShort) {
    GroupsFixture& f = start(1, {{"a"}, {"slow"}}, "slow");
    GroupConsumer a(f, 0, 11);
    publish(0);
    a.release_next();
    let_it_spill();
    for (std::uint64_t batch = 1; batch < 4; ++batch) {
        publish(batch);
        a.release_next();
        f.settle();
        EXPECT_EQ(report_of(1).spilled.slabs, batch + 1);
    }
    f.advance(Spill::kPatience);
    publish(4);
    a.release_next();
    f.settle();
    EXPECT_EQ(report_of(1).spilled.slabs, 4U) << "the egress had a slab for long enough";
}

TEST_F(BrokerGroupsSpill, SpillsNothingThatAnotherGroupHolds) {
    GroupsFixture& f = start(2, {{"a"}, {"slow"}}, "slow");
    GroupConsumer a(f, 0, 11, 1);
    publish(0);
    publish(1);
    let_it_spill();
    EXPECT_THAT(files("slow"), IsEmpty()) << "it would free nothing";
    GroupConsumer b(f, 0, 12, 1);
    b.release_next();
    let_it_spill();
    EXPECT_THAT(files("slow"), ElementsAre("slab-1-1.spill")) << "slab 0 is older, but group a still has it";
    EXPECT_TRUE(f.can_fill());
}

TEST_F(BrokerGroupsSpill, TwoGroupsSpillTheSameSlab) {
    GroupsFixture& f = start(1, {{"slow"}, {"a"}, {"other"}}, "slow other");
    GroupConsumer a(f, 1, 11);
    for (std::uint64_t batch = 0; batch < 4; ++batch) {
        if (!f.can_fill()) let_it_spill();
        publish(batch);
        a.release_next();
    }
    f.settle();
    EXPECT_GE(report_of(0).spilled.slabs, 3U);
    EXPECT_GE(report_of(2).spilled.slabs, 3U);
    f.exchange->finish();
    GroupConsumer slow(f, 0, 12), other(f, 2, 13);
    EXPECT_THAT(process_all(slow), UnorderedElementsAre(0, 1, 2, 3));
    EXPECT_THAT(f.completed, IsEmpty()) << "not by the other group";
    expect_same_generations();
    EXPECT_THAT(process_all(other), UnorderedElementsAre(0, 1, 2, 3));
    expect_same_generations();
    EXPECT_THAT(f.completed, UnorderedElementsAre(0, 1, 2, 3));
    EXPECT_TRUE(f.report().conserved());
}

TEST_F(BrokerGroupsSpill, DropsForAnOptionalGroupOnceTheOthersHaveSpilled) {
    GroupsFixture& f = start(1, {{"extra", true}, {"slow"}}, "slow");
    publish(0);
    let_it_spill();
    EXPECT_THAT(files("slow"), ElementsAre("slab-0-1.spill"));
    EXPECT_TRUE(f.can_fill());
    EXPECT_EQ(report_of(0).dropped.slabs, 1U);
    EXPECT_EQ(report_of(1).dropped.slabs, 0U);
}

// --- dead letters ---

TEST_F(BrokerGroupsSpill, ASlabThatIsLostWhileItIsOnTheDiskStaysLost) {
    GroupsFixture& f = start(1, {{"a"}, {"slow"}}, "a slow", {.max_failures = 1});
    publish(0);
    let_it_spill();
    publish(1);
    let_it_spill();
    ASSERT_THAT(files("a"), UnorderedElementsAre("slab-0-1.spill", "slab-0-2.spill"));
    ASSERT_THAT(files("slow"), UnorderedElementsAre("slab-0-1.spill", "slab-0-2.spill"));
    f.exchange->finish();
    let_it_read();
    // The first group that gets the slab reads its oldest file.
    const std::size_t first = report_of(0).in_flight.slabs > 0 ? 0 : 1;
    GroupConsumer crashing(f, first, 11, 1);
    crashing.receive();
    ASSERT_EQ(batch_in(crashing.tickets.at(0)), 0U);
    crashing.die_at_work();
    EXPECT_THAT(f.lost, ElementsAre(0));
    EXPECT_THAT(files(first == 0 ? "slow" : "a"), testing::Contains("lost-0-1.spill"));
    EXPECT_THAT(files(first == 0 ? "slow" : "a"), testing::Contains("slab-0-2.spill")) << "another filling of the slab";
    GroupConsumer other(f, 1 - first, 12), next(f, first, 13);
    std::vector<std::uint64_t> of_other;
    for (int round = 0; round < 4; ++round) {
        for (const std::uint64_t batch : process_all(other)) of_other.push_back(batch);
        process_all(next);
    }
    EXPECT_THAT(of_other, UnorderedElementsAre(0, 1));
    EXPECT_THAT(f.completed, ElementsAre(1));
    const BrokerReport report = f.report();
    EXPECT_EQ(report.completed.slabs, 1U);
    EXPECT_EQ(report.dead_lettered.slabs, 1U);
    EXPECT_EQ(report.in_flight.slabs, 0U);
    EXPECT_TRUE(report.conserved());
    EXPECT_THAT(files("a"), IsEmpty());
    EXPECT_THAT(files("slow"), IsEmpty());
}

TEST_F(BrokerGroupsSpill, ALostSlabKeepsItsMarkOnTheDiskAndBack) {
    GroupsFixture& f = start(1, {{"a"}, {"slow"}}, "slow");
    GroupConsumer a(f, 0, 11);
    publish(0);
    a.release_next(ReleaseKind::Rejected);
    ASSERT_THAT(f.lost, ElementsAre(0));
    let_it_spill();
    EXPECT_THAT(files("slow"), ElementsAre("lost-0-1.spill"));
    f.exchange->finish();
    let_it_read();
    ASSERT_EQ(f[1].state(0), SlabState::Ready);
    EXPECT_TRUE(f[1].ledger.is_lost(0)) << "for a successor";
    GroupConsumer slow(f, 1, 12);
    EXPECT_THAT(process_all(slow), ElementsAre(0));
    EXPECT_THAT(f.completed, IsEmpty());
    EXPECT_EQ(f.report().dead_lettered.slabs, 1U);
    EXPECT_TRUE(f.report().conserved());
}

// The slab's memory has another filling by then.
TEST_F(BrokerGroupsSpill, ADeadLetterDoesNotLoseAnEarlierFillingOfItsSlab) {
    GroupsFixture& f = start(1, {{"a"}, {"slow"}}, "slow");
    GroupConsumer a(f, 0, 11);
    publish(0);
    a.release_next();
    let_it_spill();
    publish(1);
    a.release_next(ReleaseKind::Rejected);
    EXPECT_THAT(f.lost, ElementsAre(1));
    f.settle();
    EXPECT_THAT(files("slow"), UnorderedElementsAre("slab-0-1.spill", "lost-0-2.spill"));
    GroupConsumer slow(f, 1, 12);
    f.exchange->finish();
    EXPECT_THAT(process_all(slow), UnorderedElementsAre(0, 1));
    EXPECT_THAT(f.completed, ElementsAre(0));
    EXPECT_TRUE(f.report().conserved());
}

// --- ends ---

TEST_F(BrokerGroupsSpill, AnAbortDuringAReadLeavesTheSlabInOneGeneration) {
    GroupsFixture& f = start(1, {{"a"}, {"slow"}}, "slow");
    GroupConsumer a(f, 0, 11);
    publish(0);
    a.release_next();
    let_it_spill();
    f.exchange->finish();
    f.step();  // takes the free slab back, and reads
    f.step();
    ASSERT_TRUE(f.stores.busy());
    ASSERT_EQ(f[1].state(0), SlabState::Filling);
    EXPECT_EQ(f[0].state(0), SlabState::Free);
    f.broker->abort();
    f.settle();
    EXPECT_EQ(f[1].state(0), SlabState::Free);
    expect_same_generations();
    EXPECT_EQ(report_of(1).spilled.slabs, 1U);
    EXPECT_TRUE(f.report().conserved());
}

TEST_F(BrokerGroupsSpill, AFullDiskHoldsThePool) {
    GroupsFixture& f = start(1, {{"a"}, {"slow"}}, "slow");
    std::filesystem::remove_all(folder_);
    GroupConsumer a(f, 0, 11);
    publish(0);
    a.release_next();
    let_it_spill();
    EXPECT_THAT(f.report().spill_error, HasSubstr("writing " + folder_ + "/slow/slab-0-1.spill"));
    EXPECT_FALSE(f.can_fill());
    EXPECT_THAT(report_of(1).shortage, HasSubstr("group 'slow': no consumers, 1 ready"));
    GroupConsumer slow(f, 1, 12);
    slow.release_next();
    EXPECT_THAT(f.completed, ElementsAre(0));
    EXPECT_TRUE(f.can_fill());
}

}  // namespace
}  // namespace offramp
