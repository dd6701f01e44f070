#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/broker/broker_fixture.hpp"

namespace offramp {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

TEST(Shortage, ReportsNothingWhileASlabIsFree) {
    BrokerFixture f(3);
    f.publish(0);
    EXPECT_EQ(f.report().shortage, "");
    EXPECT_EQ(f.report().shortage_reason, "");
}

TEST(Shortage, ReportsThatNoConsumerIsThere) {
    BrokerFixture f(1);
    f.publish(0);
    EXPECT_EQ(f.report().shortage_reason, kShortageNoConsumers);
    EXPECT_THAT(f.report().shortage, HasSubstr("1 ready"));
}

TEST(Shortage, NamesHoldersTheirSlabsAndTheTimes) {
    BrokerFixture f(3);
    JoinedConsumer slow(f, 4711, 1);
    f.publish(0);
    f.advance(seconds(7));
    JoinedConsumer quick(f, 4712, 2);
    f.publish(1);
    f.publish(2);
    f.advance(seconds(2));
    const BrokerReport report = f.report();
    EXPECT_EQ(report.shortage_reason, kShortageLeased);
    EXPECT_THAT(report.shortage, HasSubstr("pid 4711 holds 1 for 9.0 s, pid 4712 holds 1 for 2.0 s"));
    EXPECT_EQ(report.consumers.at(0).oldest_hold_seconds, 9);
    EXPECT_EQ(report.consumers.at(1).oldest_hold_seconds, 2);
}

TEST(Shortage, DistinguishesALateHolderFromAWorkingOne) {
    BrokerFixture f(1);
    JoinedConsumer late(f, 11, 1);
    f.publish(0);
    f.advance(seconds(31));
    f.broker->step();
    JoinedConsumer other(f, 12, 1);
    other.receive();
    ASSERT_EQ(other.tickets.size(), 1U);
    f.clock.advance(seconds(1));
    other.release(other.tickets[0]);
    const BrokerReport report = f.report();
    EXPECT_EQ(report.shortage_reason, kShortageHeld);
    EXPECT_THAT(report.shortage, HasSubstr("1 retired; pid 11 holds 1 for 32.0 s (stalled)"));
}

TEST(Shortage, ReportsThatAllConsumersLeave) {
    BrokerFixture f(1);
    JoinedConsumer leaving(f, 11, 1);
    f.publish(0);
    leaving.port->send_work(of_run(Credit{leaving.welcome->session, 0, 0}));
    f.broker->step();
    EXPECT_EQ(f.report().shortage_reason, kShortageDraining);
}

TEST(Shortage, ReportsThatCopiesAreUnderWay) {
    BrokerFixture f(1);
    f.broker->step();
    auto loan = f.exchange->wait_for_slab();
    ASSERT_TRUE(loan);
    EXPECT_EQ(f.report().shortage_reason, kShortageFilling);
}

}  // namespace
}  // namespace offramp
