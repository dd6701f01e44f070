#include "producer/pool/slab_exchange.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/manual_clock.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kPool = 8;

void grant(SlabExchange& exchange, std::uint32_t slab, std::uint64_t generation = 1, std::span<std::byte> bytes = {}) {
    WriteLoan loan(slab, generation, bytes);
    exchange.grant({&loan, 1});
}

TEST(SlabExchange, AGrantReachesTheEgressAndIsPublished) {
    const auto exchange = SlabExchange::make(2);
    std::array<std::byte, 8> bytes{};
    EXPECT_EQ(exchange->grants_wanted(kPool), 2U);
    grant(*exchange, 5, 9, bytes);
    auto loan = exchange->wait_for_slab();
    ASSERT_TRUE(loan);
    EXPECT_EQ(loan->slab(), 5U);
    EXPECT_EQ(loan->generation(), 9U);
    EXPECT_EQ(loan->bytes().data(), bytes.data());
    exchange->publish(std::move(*loan), {.samples = 3});
    const auto taken = exchange->take();
    ASSERT_EQ(taken.published.size(), 1U);
    EXPECT_EQ(taken.published[0].slab, 5U);
    EXPECT_EQ(taken.published[0].samples, 3U);
    EXPECT_TRUE(taken.abandoned.empty());
    EXPECT_TRUE(exchange->take().published.empty());
}

TEST(SlabExchange, AbandonsADroppedLoan) {
    const auto exchange = SlabExchange::make();
    grant(*exchange, 3);
    { const auto loan = exchange->wait_for_slab(); }
    EXPECT_EQ(exchange->take().abandoned, std::vector<std::uint32_t>{3});
}

TEST(SlabExchange, AbandonsAMovedLoanOnce) {
    const auto exchange = SlabExchange::make();
    grant(*exchange, 3);
    {
        auto loan = exchange->wait_for_slab();
        const WriteLoan moved = std::move(*loan);
    }
    EXPECT_EQ(exchange->take().abandoned.size(), 1U);
}

bool rings(const SlabExchange& exchange) {
    pollfd entry{exchange.wake_fd(), POLLIN, 0};
    return ::poll(&entry, 1, 0) == 1;
}

TEST(SlabExchange, APublisherStandsInForASleepingBroker) {
    ManualClock clock;
    const auto exchange = SlabExchange::make(2, clock);
    for (std::uint32_t slab = 0; slab < kPool; ++slab) grant(*exchange, slab);
    int asked = 0;
    bool can = true;
    exchange->set_inline_dispatch([&] {
        ++asked;
        return can && exchange->take_published().size() == 1 && !exchange->listen();
    });
    const auto publish = [&](std::chrono::nanoseconds after) {
        clock.advance(after);
        exchange->publish(std::move(*exchange->wait_for_slab()), {.samples = 1});
    };
    publish(SlabExchange::kNeighbours);
    EXPECT_EQ(asked, 0) << "it is awake";
    EXPECT_EQ(exchange->take().published.size(), 1U);
    ASSERT_FALSE(exchange->listen());
    publish(SlabExchange::kNeighbours);
    publish(SlabExchange::kNeighbours);
    EXPECT_EQ(asked, 2);
    EXPECT_FALSE(rings(*exchange));
    publish(SlabExchange::kNeighbours / 2);
    EXPECT_EQ(asked, 2) << "its thread handles neighbours";
    EXPECT_TRUE(rings(*exchange));
    EXPECT_EQ(exchange->take().published.size(), 1U);
    ASSERT_FALSE(exchange->listen());
    can = false;
    publish(SlabExchange::kNeighbours);
    EXPECT_EQ(asked, 3);
    EXPECT_TRUE(rings(*exchange)) << "the stand-in could not do everything";
    EXPECT_EQ(exchange->take().published.size(), 1U);
    ASSERT_FALSE(exchange->listen());
    exchange->set_inline_dispatch({});
    publish(SlabExchange::kNeighbours);
    EXPECT_EQ(asked, 3);
    EXPECT_TRUE(rings(*exchange));
}

TEST(SlabExchange, AStandInHandlesOnlySlabs) {
    const auto exchange = SlabExchange::make(2);
    for (std::uint32_t slab = 0; slab < kPool; ++slab) grant(*exchange, slab);
    exchange->publish(std::move(*exchange->wait_for_slab()), {.samples = 1});
    exchange->finish();
    EXPECT_EQ(exchange->take_published().size(), 1U);
    EXPECT_TRUE(exchange->listen()) << "the end is not taken yet";
    EXPECT_TRUE(exchange->take().finished);
    EXPECT_FALSE(exchange->listen());
}

TEST(SlabExchange, ATryWithoutWaitingChecksAgain) {
    const auto exchange = SlabExchange::make();
    exchange->note_shortage();  // an earlier one
    std::thread asker([&] {
        const auto loan = exchange->wait_for_slab(SlabExchange::WhenNone::Return);
        ASSERT_TRUE(loan) << "an earlier shortage does not count";
        EXPECT_EQ(loan->slab(), 4U);
        EXPECT_FALSE(exchange->wait_for_slab(SlabExchange::WhenNone::Return));
        EXPECT_FALSE(exchange->stopped());
    });
    while (!exchange->waiting()) std::this_thread::yield();
    grant(*exchange, 4);
    while (exchange->take().abandoned.empty()) {  // the loan is dropped after the second answer
        if (exchange->waiting()) exchange->note_shortage();
        std::this_thread::yield();
    }
    asker.join();
}

TEST(SlabExchange, AWaitThatDropsAsksForOneSlab) {
    const auto exchange = SlabExchange::make();
    const auto wait = [&](SlabExchange::WhenNone when_none) {
        std::thread waiter([&, when_none] { EXPECT_TRUE(exchange->wait_for_slab(when_none)); });
        while (!exchange->waiting()) std::this_thread::yield();
        return waiter;
    };
    std::thread asks = wait(SlabExchange::WhenNone::DropOldest);
    EXPECT_TRUE(exchange->wants_oldest_dropped());
    EXPECT_TRUE(exchange->listen()) << "the broker is asked";
    grant(*exchange, 4);
    EXPECT_FALSE(exchange->wants_oldest_dropped()) << "whether or not the waiter has seen it";
    asks.join();
    std::thread waits = wait(SlabExchange::WhenNone::Wait);
    EXPECT_FALSE(exchange->wants_oldest_dropped());
    grant(*exchange, 5);
    waits.join();
}

TEST(SlabExchange, StopWakesWaiters) {
    const auto exchange = SlabExchange::make();
    std::thread waiter([&] { EXPECT_FALSE(exchange->wait_for_slab()); });
    while (!exchange->waiting()) std::this_thread::yield();
    exchange->stop();
    waiter.join();
    EXPECT_EQ(exchange->grants_wanted(kPool), 0U);
}

TEST(SlabExchange, CountsTheEgressesWaitingTime) {
    const auto exchange = SlabExchange::make();
    std::thread waiter([&] { EXPECT_TRUE(exchange->wait_for_slab()); });
    while (exchange->wait_seconds() == 0) std::this_thread::yield();
    grant(*exchange, 0);
    waiter.join();
    const double waited = exchange->wait_seconds();
    EXPECT_GT(waited, 0);
    EXPECT_EQ(exchange->wait_seconds(), waited) << "only waiting counts";
}

TEST(SlabExchange, CountsNoWaitBeforeTheFirstSlabHasItsMemory) {
    const auto exchange = SlabExchange::make();
    exchange->expect_memory();
    std::thread waiter([&] { EXPECT_TRUE(exchange->wait_for_slab()); });
    while (!exchange->waiting()) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_EQ(exchange->wait_seconds(), 0);
    const std::uint64_t there = now_ns();
    exchange->note_memory();
    while (exchange->wait_seconds() == 0) std::this_thread::yield();
    exchange->note_memory();  // for another slab
    grant(*exchange, 0);
    waiter.join();
    EXPECT_LE(exchange->wait_seconds(), static_cast<double>(now_ns() - there) / 1e9);
    EXPECT_GT(exchange->wait_seconds(), 0);
}

TEST(SlabExchange, WakesASleepingBrokerOnceAndNeverAnAwakeOne) {
    const auto exchange = SlabExchange::make(2);
    exchange->wake();
    EXPECT_FALSE(rings(*exchange)) << "the broker is not asleep";
    EXPECT_TRUE(exchange->listen()) << "but it is remembered";
    exchange->take();
    EXPECT_FALSE(exchange->listen());
    exchange->wake();
    exchange->finish();
    EXPECT_TRUE(rings(*exchange));
    exchange->take();
    EXPECT_FALSE(rings(*exchange)) << "the broker knows";
    EXPECT_FALSE(exchange->listen());
}

TEST(SlabExchange, AsksForMoreAfterHalfOfTheGrants) {
    const auto exchange = SlabExchange::make(4);
    std::vector<WriteLoan> grants;
    for (std::uint32_t slab = 0; slab < 4; ++slab) grants.emplace_back(slab, 1, std::span<std::byte>());
    EXPECT_EQ(exchange->grants_wanted(kPool), 4U);
    exchange->grant(grants);
    const auto first = exchange->wait_for_slab();
    EXPECT_FALSE(exchange->listen());
    const auto second = exchange->wait_for_slab();
    EXPECT_TRUE(exchange->listen());
    EXPECT_EQ(exchange->grants_wanted(kPool), 2U);
    exchange->take();
    exchange->note_shortage();
    const auto third = exchange->wait_for_slab();
    EXPECT_FALSE(exchange->listen()) << "the broker knows that it has none";
}

TEST(SlabExchange, GrantsAheadAQuarterOfThePool) {
    EXPECT_EQ(SlabExchange::make()->grants_wanted(4), 2U);
    EXPECT_EQ(SlabExchange::make()->grants_wanted(64), 16U);
    EXPECT_EQ(SlabExchange::make()->grants_wanted(4096), 64U);
}

// The sleeper must see everything that the other side adds just before it sleeps.
TEST(SlabExchange, TheBrokerMissesNoSlabAsleep) {
    constexpr std::uint32_t kSlabs = 20'000;
    const auto exchange = SlabExchange::make(3);
    std::thread egress([&] {
        for (std::uint32_t i = 0; i < kSlabs; ++i) exchange->publish(std::move(*exchange->wait_for_slab()), {});
        exchange->finish();
    });
    std::uint32_t taken = 0, granted = 0;
    for (bool finished = false; !finished;) {
        const auto news = exchange->take();
        taken += static_cast<std::uint32_t>(news.published.size());
        finished = news.finished;
        for (std::uint32_t wanted = exchange->grants_wanted(kPool); wanted > 0; --wanted) grant(*exchange, granted++);
        if (finished || exchange->listen()) continue;
        pollfd entry{exchange->wake_fd(), POLLIN, 0};
        ASSERT_EQ(::poll(&entry, 1, 60'000), 1) << "asleep beside " << kSlabs - taken << " slabs";
    }
    egress.join();
    EXPECT_EQ(taken, kSlabs);
}

TEST(SlabExchange, StaysFinished) {
    const auto exchange = SlabExchange::make();
    exchange->finish();
    EXPECT_TRUE(exchange->take().finished);
    EXPECT_TRUE(exchange->take().finished);
    EXPECT_EQ(exchange->grants_wanted(kPool), 0U);
}

}  // namespace
}  // namespace offramp
