// Several groups of consumers over the same slabs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "tests/unit/broker/groups_fixture.hpp"

namespace offramp {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

const std::vector<ConsumerGroup> kOneOptional{{"a"}, {"extra", {.optional = true}}};
constexpr GroupPolicy kDropOldest{.when_full = WhenFull::DropOldest};

TEST(BrokerGroups, EachGroupGetsEverySlab) {
    GroupsFixture f(4, {{"a"}, {"b"}, {"c"}});
    GroupConsumer a(f, 0, 11), b(f, 1, 12), c(f, 2, 13);
    for (std::uint64_t batch = 0; batch < 8; ++batch) {
        f.publish(batch);
        for (GroupConsumer* consumer : {&a, &b, &c}) {
            consumer->receive();
            ASSERT_THAT(consumer->tickets, SizeIs(1)) << batch;
        }
        EXPECT_EQ(a.tickets, b.tickets);
        EXPECT_EQ(a.tickets, c.tickets);
        for (GroupConsumer* consumer : {&c, &a, &b}) consumer->release_next();
    }
    const BrokerReport report = f.report();
    EXPECT_EQ(report.published.slabs, 8U);
    EXPECT_EQ(report.completed.slabs, 8U);
    EXPECT_EQ(report.deliveries, 24U);
    for (const GroupReport& group : report.groups) EXPECT_EQ(group.completed.slabs, 8U) << group.name;
}

TEST(BrokerGroups, ASlabIsGrantedAgainOnceEveryGroupHasReleasedIt) {
    GroupsFixture f(1, {{"a"}, {"b"}, {"c"}});
    GroupConsumer a(f, 0, 11), b(f, 1, 12), c(f, 2, 13);
    f.publish(0);
    EXPECT_FALSE(f.can_fill());
    b.release_next();
    EXPECT_FALSE(f.can_fill());
    a.release_next();
    EXPECT_FALSE(f.can_fill());
    EXPECT_EQ(f[0].state(0), SlabState::Free);
    c.release_next();
    EXPECT_TRUE(f.can_fill());
    for (const auto& group : f.groups) EXPECT_EQ(group->ledger.word(0), (SlabWord{SlabState::Filling, 0, 2}));
}

TEST(BrokerGroups, ASlabThatALateConsumerHoldsIsNotGranted) {
    GroupsFixture f(1);
    GroupConsumer a(f, 0, 11), late(f, 1, 12);
    f.publish(0);
    a.release_next();
    f.advance(seconds(31));
    GroupConsumer b(f, 1, 13);
    b.release_next();
    EXPECT_THAT(f.completed, ElementsAre(0));
    EXPECT_EQ(f[1].state(0), SlabState::Retired);
    EXPECT_FALSE(f.can_fill());
    EXPECT_EQ(f.report().shortage_reason, kShortageHeld);
    EXPECT_THAT(f.report().shortage, HasSubstr("group 'b': "));
    late.release_next();
    EXPECT_TRUE(f.can_fill());
}

TEST(BrokerGroups, ASlabThatIsNotFilledIsFreeInEveryGroup) {
    GroupsFixture f(1);
    ASSERT_TRUE(f.can_fill());
    f.exchange->wait_for_slab().reset();
    EXPECT_TRUE(f.can_fill()) << "again";
    for (const auto& group : f.groups) EXPECT_EQ(group->ledger.word(0), (SlabWord{SlabState::Filling, 0, 2}));
}

TEST(BrokerGroups, ADeathRedeliversInItsGroupAlone) {
    GroupsFixture f(2);
    GroupConsumer a(f, 0, 11), dying(f, 1, 12, 1);
    f.publish(0);
    dying.die_at_work();
    EXPECT_EQ(f[0].state(0), SlabState::Leased);
    EXPECT_EQ(f[1].state(0), SlabState::Ready);
    EXPECT_EQ(f[0].ledger.failures(0), 0U);
    EXPECT_EQ(f[1].ledger.failures(0), 1U);
    GroupConsumer b(f, 1, 13);
    b.receive();
    a.receive();
    EXPECT_THAT(a.tickets, SizeIs(1));
    EXPECT_THAT(b.tickets, SizeIs(1));
    EXPECT_EQ(f.report().redelivered.slabs, 1U);
    EXPECT_EQ(f.report().slab_failures, 1U);
}

TEST(BrokerGroups, CompletesASlabOnceAfterTheLastRequiredGroup) {
    GroupsFixture f(2, {{"extra", {.optional = true}}, {"a"}, {"b"}});
    GroupConsumer extra(f, 0, 10), a(f, 1, 11), b(f, 2, 12);
    f.publish(0);
    extra.release_next();
    b.release_next();
    EXPECT_THAT(f.completed, IsEmpty());
    EXPECT_EQ(f.report().completed.slabs, 0U);
    EXPECT_EQ(f.report().in_flight.slabs, 1U);
    a.release_next();
    EXPECT_THAT(f.completed, ElementsAre(0));
    f.publish(1);
    a.release_next();
    b.release_next();
    EXPECT_THAT(f.completed, ElementsAre(0, 1)) << "an optional group is not waited for";
    extra.release_next();
    EXPECT_THAT(f.completed, ElementsAre(0, 1));
    EXPECT_EQ(f.report().completed.slabs, 2U);
    EXPECT_TRUE(f.report().conserved());
}

// --- dead letters ---

TEST(BrokerGroups, ADeadLetterLeavesTheOtherGroupsDelivery) {
    GroupsFixture f(2, {{"a"}, {"b"}}, {.max_failures = 1});
    GroupConsumer crashing(f, 0, 11), b(f, 1, 12);
    f.publish(0);
    b.receive();
    crashing.die_at_work();
    EXPECT_THAT(f.lost, ElementsAre(0));
    EXPECT_EQ(f[0].state(0), SlabState::Free);
    EXPECT_EQ(f[1].state(0), SlabState::Leased);
    EXPECT_TRUE(f[1].ledger.is_lost(0));
    EXPECT_EQ(f.report().dead_lettered.slabs, 1U);
    EXPECT_EQ(f.report().in_flight.slabs, 0U);
    b.release_next();
    EXPECT_THAT(f.completed, IsEmpty());
    EXPECT_EQ(f[1].state(0), SlabState::Free);
    EXPECT_FALSE(f[1].ledger.is_lost(0)) << "its next filling";

    const BrokerReport report = f.report();
    EXPECT_EQ(report.completed.slabs, 0U);
    EXPECT_EQ(report.groups.at(0).dead_lettered.slabs, 1U);
    EXPECT_EQ(report.groups.at(0).completed.slabs, 0U);
    EXPECT_EQ(report.groups.at(1).dead_lettered.slabs, 0U);
    EXPECT_EQ(report.groups.at(1).completed.slabs, 1U);
    EXPECT_TRUE(report.conserved());
    ASSERT_EQ(report.dead_letters->size(), 1U);
    EXPECT_EQ(report.dead_letters->at(0).group, "a");
}

TEST(BrokerGroups, ADeadLetterAfterACompletionLosesTheSlab) {
    GroupsFixture f(2, {{"a"}, {"b"}}, {.max_failures = 1});
    GroupConsumer crashing(f, 0, 11), b(f, 1, 12);
    f.publish(0);
    b.release_next();
    EXPECT_EQ(f.report().in_flight.slabs, 1U);
    crashing.die_at_work();
    EXPECT_THAT(f.lost, ElementsAre(0));
    EXPECT_THAT(f.completed, IsEmpty());
    EXPECT_EQ(f.report().dead_lettered.slabs, 1U);
    EXPECT_EQ(f.report().in_flight.slabs, 0U);
    EXPECT_TRUE(f.report().conserved());
}

TEST(BrokerGroups, ASlabThatBothGroupsCannotProcessIsLostOnce) {
    GroupsFixture f(2, {{"a"}, {"b"}}, {.max_failures = 1});
    GroupConsumer crashing(f, 0, 11), failing(f, 1, 12);
    f.publish(0);
    crashing.die_at_work();
    failing.release_next(ReleaseKind::Rejected);
    f.broker->step();
    EXPECT_THAT(f.lost, ElementsAre(0));
    EXPECT_EQ(f.report().dead_lettered.slabs, 1U);
    EXPECT_EQ(f.report().dead_letters->size(), 2U) << "one of each group";
    for (const GroupReport& group : f.report().groups) EXPECT_EQ(group.dead_lettered.slabs, 1U) << group.name;
    EXPECT_TRUE(f.report().conserved());
}

TEST(BrokerGroups, ALateCompletionOfALostSlabCompletesNothing) {
    GroupsFixture f(2, {{"a"}, {"b"}}, {.max_failures = 1});
    GroupConsumer late(f, 0, 11), b(f, 1, 12);
    f.publish(0);
    b.release_next();
    f.advance(seconds(31));
    GroupConsumer crashing(f, 0, 13);
    crashing.die_at_work();
    ASSERT_THAT(f.lost, ElementsAre(0));
    EXPECT_EQ(f[0].state(0), SlabState::Retired) << "the late consumer still reads it";
    late.release_next();
    EXPECT_NE(f[0].state(0), SlabState::Retired);
    EXPECT_THAT(f.completed, IsEmpty());
    EXPECT_EQ(f.report().completed.slabs, 0U);
    EXPECT_TRUE(f.report().conserved());
}

TEST(BrokerGroups, TheNextFillingOfALostSlabIsCompleted) {
    GroupsFixture f(1, {{"a"}, {"b"}}, {.max_failures = 1});
    GroupConsumer crashing(f, 0, 11), b(f, 1, 12);
    f.publish(0);
    crashing.die_at_work();
    b.release_next();
    GroupConsumer a(f, 0, 13);
    f.publish(1);
    a.release_next();
    b.release_next();
    EXPECT_THAT(f.completed, ElementsAre(1));
    EXPECT_THAT(f.lost, ElementsAre(0));
}

TEST(BrokerGroups, ADeadLetterOfAnOptionalGroupLosesNothing) {
    GroupsFixture f(2, kOneOptional, {.max_failures = 1});
    GroupConsumer a(f, 0, 11), crashing(f, 1, 12);
    f.publish(0);
    crashing.die_at_work();
    EXPECT_THAT(f.lost, IsEmpty());
    a.release_next();
    EXPECT_THAT(f.completed, ElementsAre(0));
    const BrokerReport report = f.report();
    EXPECT_EQ(report.dead_lettered.slabs, 0U);
    EXPECT_EQ(report.groups.at(1).dead_lettered.slabs, 1U);
    EXPECT_EQ(report.dead_letters->size(), 1U);
    EXPECT_TRUE(report.conserved());
}

// --- groups that do not keep up ---

TEST(BrokerGroups, AnOptionalGroupWithoutConsumersHoldsNoSlab) {
    GroupsFixture f(3, kOneOptional);
    GroupConsumer a(f, 0, 11);
    for (std::uint64_t batch = 0; batch < 10; ++batch) {
        ASSERT_TRUE(f.can_fill()) << batch;
        f.publish(batch);
        a.release_next();
    }
    EXPECT_THAT(f.completed, SizeIs(10));
    GroupReport extra = f.report().groups.at(1);
    EXPECT_TRUE(extra.optional);
    EXPECT_EQ(extra.published.slabs, 10U);
    EXPECT_EQ(extra.dropped.slabs, 8U);
    EXPECT_EQ(extra.in_flight.slabs, 2U);
    EXPECT_EQ(f[1].progress.totals().dropped, 32U);
    EXPECT_EQ(f.report().dropped.slabs, 0U) << "of the run";
    EXPECT_TRUE(f.report().conserved());

    GroupConsumer late(f, 1, 12);
    for (int i = 0; i < 2; ++i) late.release_next();
    extra = f.report().groups.at(1);
    EXPECT_EQ(extra.completed.slabs, 2U) << "the newest: older ones were dropped";
    EXPECT_EQ(f[1].progress.totals().completed.slabs, 2U);
    EXPECT_TRUE(f.report().conserved());
}

TEST(BrokerGroups, DropsTheOldestSlabOfAnOptionalGroup) {
    GroupsFixture f(3, kOneOptional);
    GroupConsumer first(f, 0, 11, 1);
    f.publish(0);
    GroupConsumer second(f, 0, 12, 1);
    f.publish(1);
    GroupConsumer third(f, 0, 13, 1);
    f.publish(2);
    std::vector<std::uint32_t> slabs;
    for (GroupConsumer* consumer : {&first, &second, &third}) {
        consumer->receive();
        slabs.push_back(consumer->tickets.at(0).slab);
    }
    EXPECT_EQ(f.report().groups.at(1).dropped.slabs, 0U) << "the required group has all of them";
    third.release_next();
    EXPECT_EQ(f[1].state(slabs[2]), SlabState::Filling) << "the only one that no required group has";
    second.release_next();
    first.release_next();
    EXPECT_EQ(f.report().groups.at(1).dropped.slabs, 1U) << "the egress has one";
    f.exchange->publish(*f.exchange->wait_for_slab(), {.first_batch = 3, .samples = 4, .items_through = 16});
    ASSERT_TRUE(f.can_fill());
    EXPECT_EQ(f[1].state(slabs[0]), SlabState::Filling) << "batch 0";
    EXPECT_EQ(f[1].state(slabs[1]), SlabState::Ready) << "batch 1";
}

TEST(BrokerGroups, AnOptionalGroupsConsumerKeepsOnlyWhatItHolds) {
    GroupsFixture f(4, kOneOptional);
    GroupConsumer a(f, 0, 11), slow(f, 1, 12, 1), other(f, 1, 13, 1);
    for (std::uint64_t batch = 0; batch < 10; ++batch) {
        ASSERT_TRUE(f.can_fill()) << batch;
        f.publish(batch);
        a.release_next();
    }
    for (GroupConsumer* consumer : {&slow, &other}) {
        consumer->receive();
        ASSERT_THAT(consumer->tickets, SizeIs(1));
        const SlabTicket& held = consumer->tickets[0];
        EXPECT_EQ(f[1].ledger.word(held.slab), (SlabWord{SlabState::Leased, 1, held.generation})) << "its bytes stay";
    }
    EXPECT_THAT(f.completed, SizeIs(10));
    const GroupReport extra = f.report().groups.at(1);
    EXPECT_EQ(extra.in_flight.slabs, 3U);
    EXPECT_EQ(extra.dropped.slabs, 7U);
}

TEST(BrokerGroups, ServesAnIdleConsumerOfAnOptionalGroupBeforeADrop) {
    GroupsFixture f(2, kOneOptional);
    GroupConsumer holder(f, 0, 11, 1), extra(f, 1, 13, 1);
    f.publish(0);
    GroupConsumer a(f, 0, 12, 1);
    f.publish(1);
    for (GroupConsumer* consumer : {&holder, &a, &extra}) consumer->receive();
    ASSERT_EQ(extra.tickets.at(0), holder.tickets.at(0));
    // In one step, its consumer has room for the slab that would be dropped.
    for (GroupConsumer* consumer : {&a, &extra})
        consumer->port->send_release(of_run(Releases{consumer->welcome->session, ++consumer->sent},
                                            std::vector<ReleaseRecord>{{consumer->tickets[0], 1, 0}}));
    f.broker->step();
    EXPECT_EQ(f.report().groups.at(1).dropped.slabs, 0U);
    extra.receive();
    ASSERT_THAT(extra.tickets, SizeIs(2));
    EXPECT_EQ(extra.tickets[1], a.tickets.at(0));
}

TEST(BrokerGroups, DropsNothingThatAnotherOptionalGroupHolds) {
    GroupsFixture f(1, {{"a"}, {"x", {.optional = true}}, {"y", {.optional = true}}});
    GroupConsumer a(f, 0, 11), y(f, 2, 13);
    f.publish(0);
    a.release_next();
    y.receive();
    ASSERT_THAT(y.tickets, SizeIs(1));
    EXPECT_FALSE(f.can_fill());
    EXPECT_EQ(f.report().groups.at(1).dropped.slabs, 0U) << "it would free nothing";
    f.watch.kill_refusal = EPERM;
    f.advance(seconds(31));
    ASSERT_EQ(f[2].state(0), SlabState::Ready) << "with a late holder";
    EXPECT_EQ(f.report().groups.at(1).dropped.slabs, 0U);
    y.release_next();
    EXPECT_TRUE(f.can_fill());
    EXPECT_EQ(f.report().groups.at(1).dropped.slabs, 1U);
}

TEST(BrokerGroups, DropsASlabThatOnlyOptionalGroupsWaitFor) {
    GroupsFixture f(2, {{"x", {.optional = true}}, {"a"}, {"y", {.optional = true}}});
    GroupConsumer a(f, 1, 11, 1);
    f.publish(0);
    GroupConsumer other(f, 1, 12, 1);
    f.publish(1);
    EXPECT_FALSE(f.can_fill());
    for (GroupConsumer* consumer : {&a, &other}) {  // both in one step
        consumer->receive();
        consumer->port->send_release(of_run(Releases{consumer->welcome->session, ++consumer->sent},
                                            std::vector<ReleaseRecord>{{consumer->tickets.at(0), 1, 0}}));
    }
    EXPECT_TRUE(f.can_fill());
    for (const std::size_t optional : {0, 2}) EXPECT_EQ(f.report().groups.at(optional).dropped.slabs, 1U);
}

TEST(BrokerGroups, ARequiredGroupDropsItsOldestSlabForAnEgressThatWaits) {
    GroupsFixture f(2, {{"a"}, {"b", kDropOldest}});
    GroupConsumer a(f, 0, 11);
    for (std::uint64_t batch = 0; batch < 2; ++batch) {
        f.publish(batch);
        a.release_next();
    }
    f.advance(seconds(1));
    EXPECT_FALSE(f.can_fill()) << "the egress does not wait";
    f.publish_dropping(2);
    EXPECT_THAT(f.listed, ElementsAre(Pair("b", 0)));
    BrokerReport report = f.report();
    EXPECT_EQ(report.dropped.slabs, 1U);
    EXPECT_EQ(report.in_flight.slabs, 2U);
    EXPECT_EQ(report.groups.at(0).dropped.slabs, 0U);
    EXPECT_EQ(report.groups.at(1).dropped.slabs, 1U);
    EXPECT_TRUE(report.conserved());
    const ProgressRecord counted = f[1].progress.totals();
    EXPECT_EQ(counted.published.slabs, 2U);
    EXPECT_EQ(counted.dropped, 4U);
    EXPECT_EQ(counted.dropped_waiting.slabs, 1U);
    EXPECT_EQ(counted.first_dropped.slabs, 1U);

    GroupConsumer b(f, 1, 12);
    a.release_next();
    for (int i = 0; i < 2; ++i) b.release_next();
    EXPECT_THAT(f.completed, ElementsAre(1, 2)) << "batch 0 is not";
    report = f.report();
    EXPECT_EQ(report.completed.slabs, 2U);
    EXPECT_EQ(report.in_flight.slabs, 0U);
    EXPECT_TRUE(report.conserved());
}

TEST(BrokerGroups, ARequiredGroupDropsNothingThatAnotherOneHas) {
    GroupsFixture f(2, {{"a"}, {"b", kDropOldest}});
    GroupConsumer holder(f, 0, 11, 1);
    f.publish(0);
    GroupConsumer a(f, 0, 12, 1);
    f.publish(1);
    a.release_next();
    f.publish_dropping(2);
    EXPECT_THAT(f.listed, ElementsAre(Pair("b", 1))) << "a drop of batch 0 would free no slab";
    holder.release_next();
    f.publish_dropping(3);
    EXPECT_THAT(f.listed, ElementsAre(Pair("b", 1), Pair("b", 0)));
    EXPECT_TRUE(f.report().conserved());
}

TEST(BrokerGroups, ALostSlabIsNotDroppedForTheRunToo) {
    GroupsFixture f(1, {{"a"}, {"b", kDropOldest}}, {.max_failures = 1});
    GroupConsumer crashing(f, 0, 11);
    f.publish(0);
    crashing.die_at_work();
    EXPECT_THAT(f.lost, ElementsAre(0));
    f.publish_dropping(1);
    EXPECT_THAT(f.listed, IsEmpty());
    const BrokerReport report = f.report();
    EXPECT_EQ(report.dead_lettered.slabs, 1U);
    EXPECT_EQ(report.dropped.slabs, 0U);
    EXPECT_EQ(report.groups.at(1).dropped.slabs, 1U);
    EXPECT_EQ(f[0].progress.totals().first_dead_letters.slabs, 1U);
    EXPECT_EQ(f[1].progress.totals().first_dropped.slabs, 0U);
    EXPECT_TRUE(report.conserved());
}

TEST(BrokerGroups, GroupsDropTheSameSlabOnce) {
    GroupsFixture f(2, {{"a", kDropOldest}, {"b", kDropOldest}, {"extra", {.optional = true}}});
    f.publish(0);
    f.publish(1);
    f.publish_dropping(2);
    EXPECT_THAT(f.listed, ElementsAre(Pair("a", 0)));
    const BrokerReport report = f.report();
    EXPECT_EQ(report.dropped.slabs, 1U);
    for (const GroupReport& group : report.groups) EXPECT_EQ(group.dropped.slabs, 1U) << group.name;
    EXPECT_TRUE(report.conserved());
}

TEST(BrokerGroups, TheReportNamesThePolicyOfEachGroup) {
    GroupsFixture f(2, {{"a"}, {"b", kDropOldest}, {"extra", {.optional = true}}});
    std::vector<WhenFull> policies;
    for (const GroupReport& group : f.report().groups) policies.push_back(group.when_full);
    EXPECT_THAT(policies, ElementsAre(WhenFull::Wait, WhenFull::DropOldest, WhenFull::DropOldest));
}

TEST(BrokerGroups, TheOldestSlabOfAllGroupsIsDropped) {
    GroupsFixture f(2, {{"a", kDropOldest}, {"b", kDropOldest}});
    GroupConsumer a(f, 0, 11, 1);
    f.publish(0);
    a.release_next();
    a.die();
    f.publish(1);
    f.publish_dropping(2);
    EXPECT_THAT(f.listed, ElementsAre(Pair("b", 0))) << "batch 1 waits in both";
}

TEST(BrokerGroups, EndsWithoutWaitingForAnOptionalGroup) {
    GroupsFixture f(2, kOneOptional);
    GroupConsumer a(f, 0, 11);
    f.publish(0);
    f.publish(1);
    f.exchange->finish();
    a.release_next();
    EXPECT_EQ(f.report().groups.at(1).dropped.slabs, 0U) << "group a is still at work";
    a.release_next();
    f.advance(seconds(1));
    EXPECT_EQ(f.report().groups.at(1).dropped.slabs, 2U);
    f.advance(seconds(6));
    EXPECT_TRUE(f.broker->ended());
    EXPECT_TRUE(f.report().conserved());
}

TEST(BrokerGroups, ARequiredGroupWithoutConsumersHoldsThePool) {
    GroupsFixture f(2, {{"a"}, {"b"}, {"extra", {.optional = true}}});
    GroupConsumer a(f, 0, 11);
    for (std::uint64_t batch = 0; batch < 2; ++batch) {
        f.publish(batch);
        a.release_next();
    }
    f.advance(seconds(10));
    EXPECT_FALSE(f.can_fill());
    const BrokerReport report = f.report();
    EXPECT_EQ(report.shortage_reason, kShortageNoConsumers);
    EXPECT_THAT(report.shortage, HasSubstr("group 'b': no consumers, 2 ready"));
    EXPECT_EQ(report.groups.at(0).shortage, "");
    EXPECT_EQ(report.groups.at(1).shortage, report.shortage);
    EXPECT_EQ(report.groups.at(2).dropped.slabs, 0U) << "it would free nothing";
}

TEST(BrokerGroups, ExplainsAShortageThatGroupsCauseTogether) {
    GroupsFixture f(2);
    GroupConsumer a0(f, 0, 11, 1), b0(f, 1, 13, 1);
    f.publish(0);
    GroupConsumer a1(f, 0, 12, 1), b1(f, 1, 14, 1);
    f.publish(1);
    a0.release_next();
    b1.release_next();
    EXPECT_FALSE(f.can_fill());
    const BrokerReport report = f.report();
    EXPECT_EQ(report.shortage_reason, kShortageLeased);
    EXPECT_THAT(report.shortage, HasSubstr("group 'a': all slabs are in use, 1 leased; pid 12 holds 1"));
    EXPECT_THAT(report.groups.at(1).shortage, HasSubstr("group 'b': all slabs are in use, 1 leased; pid 13 holds 1"));
}

TEST(BrokerGroups, AnOptionalGroupCausesAShortageOnlyByWhatItHolds) {
    GroupsFixture f(1, kOneOptional);
    GroupConsumer a(f, 0, 11);
    f.publish(0);
    EXPECT_EQ(f.report().groups.at(1).shortage, "") << "what waits is dropped when needed";
    GroupConsumer extra(f, 1, 12);
    a.release_next();
    EXPECT_EQ(f.report().groups.at(0).shortage, "");
    EXPECT_THAT(f.report().groups.at(1).shortage, HasSubstr("pid 12 holds 1"));
    EXPECT_EQ(f.report().shortage, f.report().groups.at(1).shortage);
}

TEST(BrokerGroups, AGroupThatDropsIsNotBlamedForAnothersShortage) {
    GroupsFixture f(2, {{"b", kDropOldest}, {"a"}});
    GroupConsumer a(f, 1, 12, 2);
    for (std::uint64_t batch = 0; batch < 2; ++batch) f.publish(batch);
    a.receive();
    f.broker->step();
    const BrokerReport report = f.report();
    EXPECT_EQ(report.groups.at(0).shortage, "") << "what waits in b is dropped once a has finished with it";
    EXPECT_THAT(report.shortage, HasSubstr("group 'a': "));
}

// --- the end ---

TEST(BrokerGroups, AGroupThatIsDoneDismissesItsConsumersFirst) {
    GroupsFixture f(2);
    GroupConsumer a(f, 0, 11), b(f, 1, 12);
    f.publish(0);
    a.release_next();
    f.exchange->finish();
    f.broker->step();
    a.receive();
    b.receive();
    ASSERT_TRUE(a.drain);
    EXPECT_EQ(static_cast<DrainReason>(a.drain->reason), DrainReason::RunEnded);
    EXPECT_FALSE(b.drain);
    a.send(Disconnect{a.welcome->session});
    EXPECT_FALSE(f.broker->ended());
    b.release_next();
    EXPECT_THAT(f.completed, ElementsAre(0));
    b.receive();
    ASSERT_TRUE(b.drain);
    b.send(Disconnect{b.welcome->session});
    EXPECT_TRUE(f.broker->ended());
    EXPECT_TRUE(f.report().ended);
}

TEST(BrokerGroups, AnAbortDismissesEveryGroup) {
    GroupsFixture f(2);
    GroupConsumer a(f, 0, 11), b(f, 1, 12);
    f.publish(0);
    a.receive();
    b.receive();
    f.broker->abort();
    f.exchange->stop();
    f.broker->step();
    for (GroupConsumer* consumer : {&a, &b}) {
        consumer->receive();
        ASSERT_TRUE(consumer->drain);
        EXPECT_EQ(static_cast<DrainReason>(consumer->drain->reason), DrainReason::Aborted);
    }
    a.release_next(ReleaseKind::Returned);
    a.send(Disconnect{a.welcome->session});
    EXPECT_FALSE(f.broker->ended());
    b.release_next();
    b.send(Disconnect{b.welcome->session});
    f.broker->step();
    EXPECT_TRUE(f.broker->ended());
    EXPECT_THAT(f.completed, IsEmpty()) << "one group did not process it";
    EXPECT_EQ(f.report().in_flight.slabs, 1U);
    EXPECT_TRUE(f.report().conserved());
}

// --- the report ---

TEST(BrokerGroups, ReportsWholeSlabs) {
    GroupsFixture f(6, {{"a"}, {"b"}, {"extra", {.optional = true}}}, {.max_failures = 1});
    const auto whole = [&](SlabState state) { return f.report().slabs[static_cast<std::size_t>(state)]; };
    f.broker->step();
    EXPECT_EQ(whole(SlabState::Filling), 1U);
    EXPECT_EQ(whole(SlabState::Free), 5U);
    f.publish(0);
    f.publish(1);
    EXPECT_EQ(whole(SlabState::Ready), 2U);
    GroupConsumer a(f, 0, 11, 1);
    EXPECT_EQ(whole(SlabState::Leased), 1U);
    EXPECT_EQ(whole(SlabState::Ready), 1U);
    a.release_next();
    a.release_next();
    EXPECT_EQ(whole(SlabState::Ready), 2U);
    GroupConsumer b(f, 1, 12, 2);
    EXPECT_EQ(whole(SlabState::Leased), 1U);
    b.release_next();
    b.release_next(ReleaseKind::Rejected);
    EXPECT_EQ(whole(SlabState::Ready), 2U) << "the optional group waits";
    GroupConsumer extra(f, 2, 13, 2);
    extra.release_next();
    extra.release_next();
    EXPECT_EQ(whole(SlabState::Free), 5U);

    const BrokerReport report = f.report();
    EXPECT_EQ(report.slab_states, std::vector<SlabState>({SlabState::Free, SlabState::Free, SlabState::Filling,
                                                          SlabState::Free, SlabState::Free, SlabState::Free}));
    EXPECT_EQ(report.published.samples, 8U);
    EXPECT_EQ(report.completed.samples, 4U);
    EXPECT_EQ(report.dead_lettered.samples, 4U);
    EXPECT_EQ(report.in_flight.samples, 0U);
    EXPECT_EQ(report.deliveries, 6U);
    EXPECT_EQ(report.releases[static_cast<std::size_t>(ReleaseOutcome::Completed)], 5U);
    EXPECT_EQ(report.releases[static_cast<std::size_t>(ReleaseOutcome::Failed)], 1U);
    EXPECT_EQ(report.slab_failures, 1U);
    EXPECT_TRUE(report.conserved());
    std::vector<std::string> groups, of_consumers;
    for (const GroupReport& group : report.groups) groups.push_back(group.name);
    for (const ConsumerReport& consumer : report.consumers) of_consumers.push_back(consumer.group);
    EXPECT_THAT(groups, ElementsAre("a", "b", "extra"));
    EXPECT_THAT(of_consumers, ElementsAre("a", "b", "extra"));
    for (const GroupReport& group : report.groups) EXPECT_EQ(group.consumers, 1U) << group.name;
}

TEST(BrokerGroups, NoticesAGroupWhoseNumbersDoNotAddUp) {
    GroupsFixture f(2);
    f.publish(0);
    BrokerReport report = f.report();
    EXPECT_TRUE(report.conserved());
    ++report.groups.at(1).published.samples;
    EXPECT_FALSE(report.conserved());
}

// --- after a death of the producer ---

// Group a has a dead letter that is not on the disk yet; b has not processed the slab.
TEST(BrokerGroups, ASlabThatWasLostBeforeARecoveryStaysLost) {
    GroupsFixture f(2);
    const PublishedSlab slab{.slab = 0, .first_batch = 0, .samples = 4, .batches_ended = 1, .bytes = 40};
    for (const auto& group : f.groups) {
        group->ledger.acquire([](std::uint32_t) { return true; });
        group->progress.count(CountedStep::Publish, slab, 1);
        group->ledger.publish(0);
    }
    f[0].progress.count(CountedStep::DeadLetter, slab, 1);
    f[0].ledger.dead_letter(0);
    f[1].ledger.mark_lost(0);
    const std::array<AdoptedSlabs, 2> adopted{{{{}, {&slab, 1}, {}}, {{&slab, 1}, {}, {}}}};
    f.broker->adopt(adopted);
    EXPECT_EQ(f.report().dead_lettered.slabs, 1U);
    EXPECT_EQ(f.report().completed.slabs, 0U);
    GroupConsumer b(f, 1, 12);
    b.release_next();
    EXPECT_THAT(f.completed, IsEmpty());
    EXPECT_EQ(f.report().completed.slabs, 0U);
    EXPECT_EQ(f.report().groups.at(1).completed.slabs, 1U);
    EXPECT_TRUE(f.report().conserved());
}

}  // namespace
}  // namespace offramp
