// The waiting and working times of slabs, and their holders.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "producer/broker/broker_report.hpp"
#include "tests/unit/broker/broker_fixture.hpp"

namespace offramp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::uint64_t counted(const DurationHistogram& histogram) {
    return std::accumulate(histogram.counts().begin(), histogram.counts().end(), std::uint64_t{0});
}

TEST(BrokerTimes, MeasuresTheWaitFromPublicationAndTheWorkToTheRelease) {
    BrokerFixture f;
    f.publish(0);
    f.clock.advance(milliseconds(40));
    ScriptedConsumer consumer(f, 11);
    ASSERT_TRUE(consumer.join());
    consumer.receive();
    ASSERT_EQ(consumer.tickets.size(), 1U);
    EXPECT_EQ(counted(f.report().queue), 1U);
    EXPECT_DOUBLE_EQ(f.report().queue.seconds(), 0.04);
    EXPECT_EQ(counted(f.report().process), 0U);
    f.clock.advance(milliseconds(700));
    consumer.release(consumer.tickets[0]);
    EXPECT_EQ(counted(f.report().process), 1U);
    EXPECT_DOUBLE_EQ(f.report().process.seconds(), 0.7);
}

// A slab returned unbegun was not worked on, and waits again; a failure counts as work.
TEST(BrokerTimes, EachDeliveryHasItsOwnTimes) {
    BrokerFixture f;
    f.publish(0);
    ScriptedConsumer first(f, 11, 1);
    ASSERT_TRUE(first.join());
    first.receive();
    f.clock.advance(seconds(1));
    first.release(first.tickets.at(0), ReleaseKind::Returned);
    EXPECT_EQ(counted(f.report().process), 0U);
    f.clock.advance(seconds(2));
    f.broker->step();
    first.receive();
    ASSERT_EQ(first.tickets.size(), 2U);
    EXPECT_EQ(counted(f.report().queue), 2U);
    EXPECT_DOUBLE_EQ(f.report().queue.seconds(), 2);
    f.clock.advance(seconds(4));
    first.release(first.tickets[1], ReleaseKind::Failed);
    EXPECT_EQ(counted(f.report().process), 1U);
    EXPECT_DOUBLE_EQ(f.report().process.seconds(), 4);
    EXPECT_EQ(f.report().slab_failures, 1U);
}

// No consumer had it in between.
TEST(BrokerTimes, AnUnsentTicketHasWaitedSinceThePublication) {
    BrokerFixture f;
    f.publish(0);
    ScriptedConsumer consumer(f, 11, 1);
    ASSERT_TRUE(consumer.join());
    consumer.receive();
    f.publish(1);
    f.clock.advance(seconds(2));
    const Bytes message = of_run(ReleaseAck{consumer.welcome->session, 0});
    while (f.port->send("in-memory-1", message) == SendOutcome::Sent) {
    }
    consumer.release(consumer.tickets.at(0));
    ASSERT_EQ(f.report().refused["ticket not taken"], 1U);
    f.clock.advance(seconds(3));
    consumer.receive();
    f.broker->step();
    consumer.receive();
    ASSERT_EQ(consumer.tickets.size(), 2U);
    EXPECT_DOUBLE_EQ(f.report().queue.seconds(), 5);
}

// Both hold the slab, and each has worked since its delivery.
TEST(BrokerTimes, AnOvertakenConsumerHasWorkedSinceItsDelivery) {
    BrokerFixture f(4, {.visibility_timeout = seconds(30)});
    f.publish(0);
    ScriptedConsumer slow(f, 11, 1);
    ASSERT_TRUE(slow.join());
    slow.receive();
    slow.work_on(slow.tickets.at(0));
    f.advance(seconds(40));
    ScriptedConsumer quick(f, 12, 1);
    ASSERT_TRUE(quick.join());
    quick.receive();
    ASSERT_EQ(quick.tickets.size(), 1U);
    f.clock.advance(seconds(1));
    slow.release(slow.tickets[0]);
    EXPECT_DOUBLE_EQ(f.report().process.seconds(), 41);
    f.clock.advance(seconds(1));
    quick.release(quick.tickets[0]);
    EXPECT_DOUBLE_EQ(f.report().process.seconds(), 43);
    EXPECT_EQ(counted(f.report().process), 2U);
}

TEST(BrokerTimes, CountsADeathAsACharge) {
    BrokerFixture f;
    f.publish(0);
    ScriptedConsumer consumer(f, 11, 1);
    ASSERT_TRUE(consumer.join());
    consumer.receive();
    consumer.work_on(consumer.tickets.at(0));
    consumer.die();
    EXPECT_EQ(f.report().slab_failures, 1U);
    EXPECT_EQ(counted(f.report().process), 0U) << "the end of its work is unknown";
}

TEST(BrokerTimes, ReportsEachSlabsStateAndHolder) {
    BrokerFixture f;
    f.publish(0);
    f.publish(1);
    ScriptedConsumer consumer(f, 11, 1);
    ASSERT_TRUE(consumer.join());
    consumer.receive();
    ASSERT_EQ(consumer.tickets.size(), 1U);
    const BrokerReport report = f.report();
    ASSERT_EQ(report.slab_states.size(), 4U);
    const std::uint32_t leased = consumer.tickets[0].slab;
    EXPECT_EQ(report.slab_states[leased], SlabState::Leased);
    EXPECT_EQ(std::ranges::count(report.slab_states, SlabState::Ready), 1);
    ASSERT_EQ(report.consumers.size(), 1U);
    EXPECT_EQ(report.consumers[0].held, std::vector<std::uint32_t>{leased});
}

}  // namespace
}  // namespace offramp
