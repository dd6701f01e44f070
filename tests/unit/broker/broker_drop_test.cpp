#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "producer/broker/run_records.hpp"
#include "tests/unit/broker/broker_fixture.hpp"

namespace offramp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using WhenNone = SlabExchange::WhenNone;

// A broker that may drop waiting slabs. The egress is a thread that waits for one slab.
class BrokerDrop : public testing::Test {
  protected:
    ~BrokerDrop() override {
        if (f_) f_->exchange->stop();
        if (egress_.joinable()) egress_.join();
    }

    BrokerFixture& start(std::uint32_t slabs) {
        BrokerOptions options;
        options.policy = {.when_full = WhenFull::DropOldest};
        options.progress = &progress_;
        options.on_dropped = [this](const SlabTicket& ticket, std::span<const std::byte> bytes) {
            EXPECT_EQ(f_->ledger.word(ticket.slab).state, SlabState::Ready) << "listed before it is free";
            EXPECT_EQ(bytes.data(), f_->bytes_of(ticket.slab).data());
            EXPECT_EQ(progress_.totals().dropped, 4 * dropped_.size()) << "and before it is counted";
            dropped_.emplace_back(ticket.slab, ticket.generation);
        };
        f_ = std::make_unique<BrokerFixture>(slabs, options);
        return *f_;
    }
    // Asks for a slab and fills it with batch 99. Returns once it waits.
    void ask(WhenNone when_none = WhenNone::DropOldest) {
        egress_ = std::thread([this, when_none] {
            auto loan = f_->exchange->wait_for_slab(when_none);
            if (!loan) return;
            got_ = loan->slab();
            f_->exchange->publish(
                std::move(*loan),
                {.first_batch = 99, .samples = 4, .batches_ended = 1, .bytes = 40, .items_through = 400});
        });
        while (!f_->exchange->waiting()) std::this_thread::yield();
    }
    void expect_nothing_dropped() const {
        EXPECT_THAT(dropped_, IsEmpty());
        EXPECT_EQ(f_->report().dropped.samples, 0U);
        EXPECT_TRUE(f_->report().conserved());
    }

    RunProgress memory_{};
    ProgressLog progress_{memory_};
    std::vector<std::pair<std::uint32_t, std::uint64_t>> dropped_;  // slab and generation
    std::optional<std::uint32_t> got_;
    std::unique_ptr<BrokerFixture> f_;
    std::thread egress_;
};

TEST_F(BrokerDrop, DropsTheOldestWaitingSlabForANewOutput) {
    BrokerFixture& f = start(2);
    f.publish(0);
    f.publish(1);
    f.advance(seconds(1));
    expect_nothing_dropped();
    ask();
    f.broker->step();
    egress_.join();
    f.broker->step();
    EXPECT_EQ(got_, 0U);
    EXPECT_THAT(dropped_, ElementsAre(std::pair(0U, 1U)));
    EXPECT_EQ(f.report().dropped.slabs, 1U);
    EXPECT_EQ(f.report().dropped.samples, 4U);
    EXPECT_EQ(f.report().published.samples, 12U);
    EXPECT_TRUE(f.report().conserved());
    EXPECT_EQ(progress_.totals().published.samples, 8U) << "a successor counts it as never published";
    EXPECT_EQ(progress_.totals().dropped, 4U);

    f.exchange->finish();
    f.broker->step();
    JoinedConsumer consumer(f, 11);
    consumer.receive();
    ASSERT_EQ(consumer.tickets.size(), 1U);
    EXPECT_EQ(consumer.tickets[0].slab, 1U) << "batch 1";
    consumer.release(consumer.tickets[0]);
    ASSERT_EQ(consumer.tickets.size(), 2U);
    consumer.release(consumer.tickets[1]);
    EXPECT_EQ(f.report().completed.samples, 8U);
    EXPECT_TRUE(f.report().conserved());
}

TEST_F(BrokerDrop, NeverDropsASlabThatAConsumerHolds) {
    BrokerFixture& f = start(2);
    JoinedConsumer one(f, 11, 1);
    one.take(0);
    JoinedConsumer other(f, 12, 1);
    other.take(1);
    ASSERT_EQ(one.tickets.size() + other.tickets.size(), 2U) << "both slabs are leased";
    ask();
    f.advance(seconds(29));
    expect_nothing_dropped();
    f.advance(seconds(3));  // both are Ready again, with late holders
    EXPECT_EQ(f.report().visibility_timeouts, 2U);
    expect_nothing_dropped();
    other.release(other.tickets.at(0));
    egress_.join();
    EXPECT_EQ(got_, other.tickets[0].slab);
    expect_nothing_dropped();
}

TEST_F(BrokerDrop, ServesConsumersFirst) {
    BrokerFixture& f = start(1);
    JoinedConsumer consumer(f, 11, 1);
    f.broker->step();
    f.exchange->publish(*f.exchange->wait_for_slab(),
                        {.first_batch = 0, .samples = 4, .batches_ended = 1, .bytes = 40, .items_through = 4});
    ask();
    f.broker->step();  // sees the slab and the egress's wish at once
    consumer.receive();
    ASSERT_EQ(consumer.tickets.size(), 1U);
    f.advance(seconds(1));
    expect_nothing_dropped();
    consumer.release(consumer.tickets[0]);
    egress_.join();
    EXPECT_EQ(got_, 0U);
    expect_nothing_dropped();
}

TEST_F(BrokerDrop, DropsOnlyForAnEgressThatAsks) {
    BrokerFixture& f = start(2);
    f.publish(0);
    f.publish(1);
    ask(WhenNone::Wait);
    f.advance(seconds(1));
    expect_nothing_dropped();
}

TEST_F(BrokerDrop, DropsNothingAtTheEnd) {
    BrokerFixture& f = start(2);
    f.publish(0);
    f.publish(1);
    f.exchange->finish();
    f.advance(seconds(1));
    expect_nothing_dropped();
    ask();
    f.broker->abort();
    f.advance(seconds(1));
    expect_nothing_dropped();
}

TEST_F(BrokerDrop, DropsNothingWhileThePoolIsBeingMade) {
    BrokerFixture& f = start(3);
    f.unmade = {2};
    f.publish(0);
    f.publish(1);
    ask();
    f.advance(seconds(1));
    expect_nothing_dropped();
    f.unmade.clear();
    f.broker->step();
    egress_.join();
    EXPECT_EQ(got_, 2U);
    expect_nothing_dropped();
}

TEST_F(BrokerDrop, ASlabThatFailedIsDroppedLikeAnyOther) {
    BrokerFixture& f = start(2);
    f.publish(0);
    f.publish(1);
    JoinedConsumer crashing(f, 11, 1);
    crashing.receive();
    ASSERT_EQ(crashing.tickets.size(), 1U);
    crashing.work_on(crashing.tickets[0]);
    crashing.die();
    ASSERT_EQ(f.ledger.failures(0), 1U);
    ask();
    f.broker->step();
    egress_.join();
    EXPECT_THAT(dropped_, ElementsAre(std::pair(0U, 1U)));
    EXPECT_EQ(f.ledger.failures(0), 0U);
    EXPECT_EQ(f.report().dead_lettered.samples, 0U);
    f.broker->step();
    EXPECT_TRUE(f.report().conserved());
}

TEST_F(BrokerDrop, ADeadLetterIsNotDropped) {
    BrokerFixture& f = start(2);
    f.publish(0);
    f.publish(1);
    JoinedConsumer consumer(f, 11, 1);
    consumer.receive();
    ASSERT_EQ(consumer.tickets.size(), 1U);
    ask();
    consumer.release(consumer.tickets[0], ReleaseKind::Rejected);  // this run keeps no payloads: its slab is free
    EXPECT_EQ(f.report().dead_lettered.samples, 4U);
    f.broker->step();
    egress_.join();
    EXPECT_EQ(got_, 0U);
    expect_nothing_dropped();
}

}  // namespace
}  // namespace offramp
