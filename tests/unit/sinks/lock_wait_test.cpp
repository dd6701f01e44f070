#include "consumer/sinks/sqlite/sqlite_database.hpp"

#include <gtest/gtest.h>

#include "tests/support/manual_clock.hpp"

namespace offramp {
namespace {

using namespace std::chrono_literals;

// Polls until the patience ends; returns the waiting time.
std::chrono::nanoseconds wait_to_the_end(LockWait& wait, ManualClock& clock) {
    const TimePoint began = clock.now();
    while (const auto sleep = wait.next()) clock.advance(*sleep);
    return clock.now() - began;
}

TEST(LockWait, LastsForItsPatienceEachTime) {
    ManualClock clock;
    LockWait wait(30ms, clock);
    for (int time = 0; time < 3; ++time) {
        wait.begin();
        EXPECT_EQ(wait_to_the_end(wait, clock), 30ms);
        clock.advance(1h);  // between two waits
    }
}

TEST(LockWait, PollsOftenAtFirst) {
    ManualClock clock;
    LockWait wait(30ms, clock);
    for (int look = 0; look < 10; ++look) EXPECT_EQ(wait.next(), 100us);
    EXPECT_EQ(wait.next(), 1ms);
}

TEST(LockWait, ExcludesTimeInWhichTheProcessWasStopped) {
    ManualClock clock;
    LockWait wait(200ms, clock);
    ASSERT_TRUE(wait.next());
    clock.advance(1h);
    ASSERT_TRUE(wait.next());  // 50 ms have been waited
    const std::chrono::nanoseconds more = wait_to_the_end(wait, clock);
    EXPECT_GE(more, 150ms);
    EXPECT_LT(more, 151ms);
}

TEST(LockWait, PollsOnceWithoutPatience) {
    ManualClock clock;
    EXPECT_FALSE(LockWait(0ms, clock).next());
}

}  // namespace
}  // namespace offramp
