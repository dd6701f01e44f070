#include "consumer/session/consumer_session.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <deque>

#include "tests/support/manual_clock.hpp"
#include "tests/unit/session/scripted_producer.hpp"

namespace offramp {
namespace {

using std::chrono::milliseconds;

TEST(ReleaseLog, SendsEachReleaseOnceUntilTheRepeatInterval) {
    ManualClock clock;
    ReleaseLog log;
    EXPECT_FALSE(log.due(clock.now()));
    EXPECT_FALSE(log.next_due());

    EXPECT_EQ(log.add(ticket_of(7), ReleaseKind::Completed), 1U);
    EXPECT_TRUE(log.has_unsent());
    const auto batch = log.due(clock.now());
    ASSERT_TRUE(batch);
    EXPECT_EQ(batch->first_sequence, 1U);
    ASSERT_EQ(batch->records.size(), 1U);
    EXPECT_EQ(batch->records[0].ticket, ticket_of(7));
    EXPECT_EQ(batch->records[0].kind, static_cast<std::uint32_t>(ReleaseKind::Completed));

    log.mark_sent(*batch, clock.now());
    EXPECT_FALSE(log.has_unsent());
    EXPECT_FALSE(log.due(clock.now() + ReleaseLog::kRepeatEvery - std::chrono::nanoseconds(1)));
    EXPECT_TRUE(log.due(clock.now() + ReleaseLog::kRepeatEvery));
    EXPECT_EQ(log.next_due(), clock.now() + ReleaseLog::kRepeatEvery);
}

TEST(ReleaseLog, KeepsAFailuresReasonUntilAcknowledged) {
    ManualClock clock;
    ReleaseLog log;
    log.add(ticket_of(1), ReleaseKind::Completed);
    log.add(ticket_of(2), ReleaseKind::Failed, "why");
    log.mark_sent(*log.due(clock.now()), clock.now());
    ASSERT_TRUE(log.acknowledge(1, clock.now()));
    EXPECT_EQ(log.reasons(), (std::map<std::uint64_t, std::string>{{2, "why"}}));
    log.begin_anew();
    EXPECT_EQ(log.reasons(), (std::map<std::uint64_t, std::string>{{1, "why"}}));
    log.mark_sent(*log.due(clock.now()), clock.now());
    ASSERT_TRUE(log.acknowledge(1, clock.now()));
    EXPECT_TRUE(log.reasons().empty());
}

TEST(ReleaseLog, KeepsUnsentReleasesDue) {
    ManualClock clock;
    ReleaseLog log;
    log.add(ticket_of(1), ReleaseKind::Returned);
    ASSERT_TRUE(log.due(clock.now()));
    EXPECT_TRUE(log.due(clock.now()));
    EXPECT_TRUE(log.has_unsent());
}

TEST(ReleaseLog, RepeatsTheOldestUnacknowledgedDespiteNewOnes) {
    ManualClock clock;
    ReleaseLog log;
    for (std::uint32_t slab = 0; slab < 4; ++slab) {
        log.add(ticket_of(slab), ReleaseKind::Completed);
        const auto batch = log.due(clock.now());
        ASSERT_TRUE(batch);
        EXPECT_EQ(batch->first_sequence, slab + 1U);
        log.mark_sent(*batch, clock.now());
        clock.advance(milliseconds(25));
    }
    const auto repeated = log.due(clock.now());  // 100 ms after the first, 25 after the last
    ASSERT_TRUE(repeated);
    EXPECT_EQ(repeated->first_sequence, 1U);
    EXPECT_EQ(repeated->records.size(), 4U);
}

TEST(ReleaseLog, AcknowledgementsAreCumulativeAndInvalidOnesIgnored) {
    ManualClock clock;
    ReleaseLog log;
    for (std::uint32_t slab = 0; slab < 3; ++slab) log.add(ticket_of(slab), ReleaseKind::Completed);
    EXPECT_FALSE(log.acknowledge(1, clock.now())) << "no release was sent yet";
    log.mark_sent(*log.due(clock.now()), clock.now());

    EXPECT_TRUE(log.acknowledge(2, clock.now()));
    EXPECT_EQ(log.unacknowledged(), 1U);
    EXPECT_TRUE(log.acknowledge(1, clock.now())) << "an old one";
    EXPECT_EQ(log.unacknowledged(), 1U);
    EXPECT_FALSE(log.acknowledge(4, clock.now()));
    EXPECT_FALSE(log.acknowledge(~std::uint64_t{0}, clock.now()));
    EXPECT_EQ(log.unacknowledged(), 1U);
    EXPECT_TRUE(log.acknowledge(3, clock.now()));
    EXPECT_FALSE(log.next_due());
    EXPECT_EQ(log.add(ticket_of(9), ReleaseKind::Completed), 4U) << "numbers continue";
}

TEST(ReleaseLog, SplitsDueReleasesIntoMessages) {
    ManualClock clock;
    ReleaseLog log;
    for (std::uint32_t i = 0; i < kMaxTicketsPerMessage + 10; ++i) log.add(ticket_of(i), ReleaseKind::Completed);
    const auto first = log.due(clock.now());
    ASSERT_TRUE(first);
    EXPECT_EQ(first->records.size(), kMaxTicketsPerMessage);
    log.mark_sent(*first, clock.now());
    const auto second = log.due(clock.now());
    ASSERT_TRUE(second);
    EXPECT_EQ(second->first_sequence, kMaxTicketsPerMessage + 1U);
    EXPECT_EQ(second->records.size(), 10U);
}

// A receiver that follows common/design/wire-protocol.md, and a channel that loses and repeats at random: each release
// is accepted once, in order, and in the end all are acknowledged.
TEST(ReleaseLog, DeliversEveryReleaseOnceInOrderDespiteLoss) {
    const bool holds = rc::check("go-back-N over a bad channel", [] {
        ManualClock clock;
        ReleaseLog log;
        std::deque<ReleaseLog::Batch> to_producer;
        std::deque<std::uint64_t> to_consumer;
        std::vector<std::uint32_t> taken;
        std::uint32_t added = 0;

        const auto send_due = [&] {
            while (const auto batch = log.due(clock.now())) {
                to_producer.push_back(*batch);
                log.mark_sent(*batch, clock.now());
            }
        };
        const auto deliver = [&](const ReleaseLog::Batch& batch) {
            std::uint64_t sequence = batch.first_sequence;
            for (const ReleaseRecord& record : batch.records)
                if (sequence++ == taken.size() + 1) taken.push_back(record.ticket.slab);
            to_consumer.push_back(taken.size());
        };

        const auto steps = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 9));
        for (const int step : steps) {
            switch (step) {
                case 0:
                case 1:
                    log.add(ticket_of(added++), ReleaseKind::Completed);
                    break;
                case 2:
                    send_due();
                    break;
                case 3:
                    clock.advance(milliseconds(60));
                    break;
                case 4:
                    if (!to_producer.empty()) deliver(to_producer.front()), to_producer.pop_front();
                    break;
                case 5:
                    if (!to_producer.empty()) to_producer.pop_front();  // lost
                    break;
                case 6:
                    if (!to_producer.empty()) deliver(to_producer.front());  // it will come again
                    break;
                case 7:
                    if (!to_consumer.empty()) {
                        RC_ASSERT(log.acknowledge(to_consumer.front(), clock.now()));
                        to_consumer.pop_front();
                    }
                    break;
                default:
                    if (!to_consumer.empty()) to_consumer.pop_front();  // lost
            }
            RC_ASSERT(log.unacknowledged() + taken.size() >= added);
        }

        // The channel improves. Each round repeats at most the losses of one round.
        for (int round = 0; round < 3 && log.unacknowledged() > 0; ++round) {
            clock.advance(ReleaseLog::kRepeatEvery);
            send_due();
            for (; !to_producer.empty(); to_producer.pop_front()) deliver(to_producer.front());
            for (; !to_consumer.empty(); to_consumer.pop_front())
                RC_ASSERT(log.acknowledge(to_consumer.front(), clock.now()));
        }
        RC_ASSERT(log.unacknowledged() == 0U);
        RC_ASSERT(taken.size() == added);
        for (std::uint32_t i = 0; i < added; ++i) RC_ASSERT(taken[i] == i);
    });
    EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace offramp
