#include "common/base/bounded_queue.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "common/base/napping_condition.hpp"
#include "tests/unit/ingest/prefetch_world.hpp"

namespace offramp {
namespace {

struct HoursOfNaps : Naps {
    static constexpr std::chrono::nanoseconds kShortest = std::chrono::hours(1), kUsual = kShortest,
                                              kLongest = kShortest, kLongestBefore = kShortest,
                                              kPatience = std::chrono::hours(24);
};
struct NoPatience : Naps {
    static constexpr std::chrono::nanoseconds kPatience{};
};
// It sleeps once per notification.
struct LittlePatience : Naps {
    static constexpr std::chrono::nanoseconds kPatience = std::chrono::microseconds(100);
};

template <class Lengths>
using Queue = BoundedQueue<int, BasicNappingCondition<Lengths>>;

TEST(NappingCondition, AFullQueueOrItsEndButNoPushWakesANapper) {
    Queue<HoursOfNaps> queue(2);
    std::vector<int> popped;
    std::thread popper([&] {
        while (const auto value = queue.pop()) popped.push_back(*value);
    });
    yield_until([&] { return queue.waiting_to_pop() == 1; });
    EXPECT_TRUE(queue.push(0));
    EXPECT_TRUE(queue.push(1));
    EXPECT_EQ(queue.waiting_to_pop(), 1);
    EXPECT_EQ(queue.size(), 2U);
    EXPECT_TRUE(queue.push(2)) << "there is room again";
    queue.close();
    popper.join();
    EXPECT_EQ(popped, (std::vector{0, 1, 2}));
}

TEST(NappingCondition, AWaitForRoomEndsANap) {
    Queue<HoursOfNaps> queue(1);
    std::thread popper([&] { EXPECT_EQ(queue.pop(), 0); });
    yield_until([&] { return queue.waiting_to_pop() == 1; });
    EXPECT_TRUE(queue.push(0));
    EXPECT_TRUE(queue.wait_for_room(kSteadyClock.now() + std::chrono::hours(1)));
    popper.join();
}

TEST(NappingCondition, APushWakesASleeper) {
    Queue<NoPatience> queue(2);
    std::thread popper([&] {
        for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.pop(), i);
    });
    for (int i = 0; i < 3; ++i) {
        yield_until([&] { return queue.waiting_to_pop() == 1; });
        EXPECT_TRUE(queue.push(int(i)));
        yield_until([&] { return queue.size() == 0; });
    }
    popper.join();
}

TEST(NappingCondition, AWaitEndsAtItsTimeout) {
    Queue<HoursOfNaps> naps(1);
    Queue<NoPatience> sleeps(1);
    for (int i = 0; i < 3; ++i) {
        EXPECT_FALSE(naps.pop_until(kSteadyClock.now() + std::chrono::microseconds(100 * i)));
        EXPECT_FALSE(sleeps.pop_until(kSteadyClock.now() + std::chrono::microseconds(100 * i)));
    }
}

// Each gap is close to the time after which the other goes to sleep.
TEST(NappingCondition, NoPushIsLostBetweenANapAndASleep) {
    constexpr int kEach = 3000;
    Queue<LittlePatience> queue(8);
    std::vector<std::thread> pushers;
    for (int pusher = 0; pusher < 2; ++pusher)
        pushers.emplace_back([&, pusher] {
            std::mt19937 random(static_cast<unsigned>(pusher));
            std::uniform_int_distribution gap(0, 250);
            for (int i = 0; i < kEach; ++i) {
                const TimePoint until = kSteadyClock.now() + std::chrono::microseconds(gap(random));
                while (kSteadyClock.now() < until) std::this_thread::yield();
                ASSERT_TRUE(queue.push(pusher * kEach + i));
            }
        });
    std::vector<int> next = {0, kEach};
    for (int popped = 0; popped < 2 * kEach; ++popped) {
        const auto value = popped % 2 == 0 ? queue.pop() : queue.pop_until(kSteadyClock.now() + std::chrono::hours(1));
        ASSERT_TRUE(value);
        EXPECT_EQ(*value, next[static_cast<std::size_t>(*value / kEach)]++);
    }
    for (std::thread& pusher : pushers) pusher.join();
}

}  // namespace
}  // namespace offramp
