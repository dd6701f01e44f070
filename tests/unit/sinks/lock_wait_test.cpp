#include "consumer/sinks/sqlite/lock_wait.hpp"

#include <gtest/gtest.h>

#include "tests/support/manual_clock.hpp"

namespace offramp {
namespace {

using namespace std::chrono_literals;

// Looks for as long as it may; how long that was.
std::chrono::nanoseconds wait_to_the_end(LockWait& wait, ManualClock& clock) {
    const TimePoint began = clock.now();
    while (const auto sleep = wait.next()) clock.advance(*sleep);
    return clock.now() - began;
}

TEST(LockWait, LastsAsLongAsItsPatienceEachTime) {
    ManualClock clock;
    LockWait wait(30ms, clock);
    for (int time = 0; time < 3; ++time) {
        wait.begin();
        EXPECT_EQ(wait_to_the_end(wait, clock), 30ms);
        clock.advance(1h);  // between two waits
    }
}

TEST(LockWait, LooksOftenAtFirst) {
    ManualClock clock;
    LockWait wait(30ms, clock);
    for (int look = 0; look < 10; ++look) EXPECT_EQ(wait.next(), 100us);
    EXPECT_EQ(wait.next(), 1ms);
}

TEST(LockWait, TimeInWhichItWasStoppedIsNoWaiting) {
    ManualClock clock;
    LockWait wait(200ms, clock);
    ASSERT_TRUE(wait.next());
    clock.advance(1h);
    ASSERT_TRUE(wait.next());  // 50 ms have been waited
    const std::chrono::nanoseconds more = wait_to_the_end(wait, clock);
    EXPECT_GE(more, 150ms);
    EXPECT_LT(more, 151ms);
}

TEST(LockWait, WithoutPatienceItLooksOnce) {
    ManualClock clock;
    EXPECT_FALSE(LockWait(0ms, clock).next());
}

}  // namespace
}  // namespace offramp
