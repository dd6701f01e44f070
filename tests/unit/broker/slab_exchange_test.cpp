#include "producer/slab/slab_exchange.hpp"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace offramp {
namespace {

constexpr std::uint32_t kPool = 8;

std::array<SlabExchange::Grant, 1> one(std::uint32_t slab, std::uint64_t generation, std::span<std::byte> bytes = {}) {
    return {{{slab, generation, bytes}}};
}

TEST(SlabExchange, AGrantReachesTheEgressAndIsPublished) {
    const auto exchange = SlabExchange::make(2);
    std::array<std::byte, 8> bytes{};
    EXPECT_EQ(exchange->grants_wanted(kPool), 2U);
    exchange->grant(one(5, 9, bytes));
    auto lease = exchange->wait_for_slab();
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease->slab(), 5U);
    EXPECT_EQ(lease->generation(), 9U);
    EXPECT_EQ(lease->bytes().data(), bytes.data());
    exchange->publish(std::move(*lease), {.samples = 3});
    const auto taken = exchange->take();
    ASSERT_EQ(taken.published.size(), 1U);
    EXPECT_EQ(taken.published[0].slab, 5U);
    EXPECT_EQ(taken.published[0].samples, 3U);
    EXPECT_TRUE(taken.abandoned.empty());
    EXPECT_TRUE(exchange->take().published.empty());
}

TEST(SlabExchange, AForgottenLeaseIsAbandoned) {
    const auto exchange = SlabExchange::make();
    exchange->grant(one(3, 1));
    { const auto lease = exchange->wait_for_slab(); }
    EXPECT_EQ(exchange->take().abandoned, std::vector<std::uint32_t>{3});
}

TEST(SlabExchange, AMovedLeaseIsAbandonedOnce) {
    const auto exchange = SlabExchange::make();
    exchange->grant(one(3, 1));
    {
        auto lease = exchange->wait_for_slab();
        const FillLease moved = std::move(*lease);
    }
    EXPECT_EQ(exchange->take().abandoned.size(), 1U);
}

TEST(SlabExchange, StopWakesWhoeverWaits) {
    const auto exchange = SlabExchange::make();
    std::thread waiter([&] { EXPECT_FALSE(exchange->wait_for_slab()); });
    while (!exchange->waiting()) std::this_thread::yield();
    exchange->stop();
    waiter.join();
    EXPECT_EQ(exchange->grants_wanted(kPool), 0U);
}

TEST(SlabExchange, CountsTheTimeThatTheEgressWaited) {
    const auto exchange = SlabExchange::make();
    std::thread waiter([&] { EXPECT_TRUE(exchange->wait_for_slab()); });
    while (exchange->wait_seconds() == 0) std::this_thread::yield();
    exchange->grant(one(0, 1));
    waiter.join();
    const double waited = exchange->wait_seconds();
    EXPECT_GT(waited, 0);
    EXPECT_EQ(exchange->wait_seconds(), waited) << "only waiting counts";
}

TEST(SlabExchange, FinishedStaysFinished) {
    const auto exchange = SlabExchange::make();
    exchange->finish();
    EXPECT_TRUE(exchange->take().finished);
    EXPECT_TRUE(exchange->take().finished);
    EXPECT_EQ(exchange->grants_wanted(kPool), 0U);
}

}  // namespace
}  // namespace offramp
