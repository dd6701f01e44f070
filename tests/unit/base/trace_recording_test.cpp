#include "common/base/trace.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace offramp {
namespace {

class TraceRecording : public ::testing::Test {
  protected:
    ~TraceRecording() override { take_ranges(); }
};

TEST_F(TraceRecording, StartsAndEndsInARunningProcess) {
    record_range("before", 1, 10, 20);
    ASSERT_TRUE(keep_ranges("main"));
    EXPECT_FALSE(keep_ranges("another")) << "one is under way";
    record_range("first", 2, 10, 20);
    const auto first = take_ranges();
    ASSERT_TRUE(first);
    EXPECT_FALSE(take_ranges());
    record_range("between", 3, 10, 20);
    ASSERT_TRUE(keep_ranges("again"));
    record_range("second", 4, 10, 20);
    const auto second = take_ranges();
    ASSERT_EQ(first->ranges.size(), 1U);
    EXPECT_EQ(first->ranges[0].name, std::string("first"));
    EXPECT_EQ(first->ranges[0].lane.data(), std::string("main"));
    ASSERT_TRUE(second);
    ASSERT_EQ(second->ranges.size(), 1U);
    EXPECT_EQ(second->ranges[0].name, std::string("second"));
    EXPECT_EQ(second->ranges[0].lane.data(), std::string("again"));
}

TEST_F(TraceRecording, CountsRecordsBeyondItsCapacity) {
    ASSERT_TRUE(keep_ranges("main", {.most = 2}));
    for (std::uint64_t i = 0; i < 5; ++i) record_range("one", i, 10, 20);
    const auto kept = take_ranges();
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept->ranges.size(), 2U);
    EXPECT_EQ(kept->not_kept, 3U);
}

TEST_F(TraceRecording, IgnoresRecordsOutsideItsTimeRange) {
    ASSERT_TRUE(keep_ranges("main", {.most = 2, .from_ns = 100, .until_ns = 200}));
    for (std::uint64_t i = 0; i < 5; ++i) record_range("before", i, 10, 99);
    record_range("into", 5, 90, 100);
    record_device_range("behind", 6, 200, 210);
    record_range("out of", 7, 199, 300);
    record_range("too many", 8, 150, 160);
    record_range("behind", 9, 200, 210);
    const auto kept = take_ranges();
    ASSERT_TRUE(kept);
    ASSERT_EQ(kept->ranges.size(), 2U);
    EXPECT_EQ(kept->ranges[0].name, std::string("into"));
    EXPECT_EQ(kept->ranges[1].name, std::string("out of"));
    EXPECT_EQ(kept->not_kept, 1U);
    ASSERT_TRUE(keep_ranges("main")) << "the next one has no end";
    record_range("later", 10, 1000, 1001);
    EXPECT_EQ(take_ranges()->ranges.size(), 1U);
}

// Threads of a host program have their own names, if any.
TEST_F(TraceRecording, GivesAnUnnamedThreadTheKernelsName) {
    ASSERT_TRUE(keep_ranges("main"));
    std::thread([] {
        ::pthread_setname_np(::pthread_self(), "a\"b\\c");
        record_range("one", 1, 10, 20);
    }).join();
    std::thread([] {
        name_this_thread("named");
        record_range("two", 1, 10, 20);
    }).join();
    const auto kept = take_ranges();
    ASSERT_TRUE(kept);
    ASSERT_EQ(kept->ranges.size(), 2U);
    EXPECT_EQ(kept->ranges[0].lane.data(), std::string("a?b?c"));
    EXPECT_EQ(kept->ranges[1].lane.data(), std::string("named"));
}

// Forks while another thread records, so that the child would often inherit a locked mutex.
TEST_F(TraceRecording, AForkedChildRecordsNothingUntilItStarts) {
    ASSERT_TRUE(keep_ranges("main"));
    std::atomic<bool> over{false};
    std::thread another([&] {
        for (std::uint64_t i = 0; !over; ++i) record_range("one", i, 10, 20);
    });
    for (int round = 0; round < 20; ++round) {
        const pid_t child = ::fork();
        if (child == 0) {
            ::alarm(60);  // ends a hang
            if (recording() || take_ranges()) ::_exit(1);
            if (!keep_ranges("child")) ::_exit(2);
            record_range("two", 1, 10, 20);
            const auto kept = take_ranges();
            const bool good = kept && kept->ranges.size() == 1 && kept->ranges[0].lane.data() == std::string("child");
            ::_exit(good ? 0 : 3);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_EQ(status, 0);
    }
    over = true;
    another.join();
    EXPECT_TRUE(recording());
}

// The handler runs after the destructors of objects created after its registration.
TEST(TraceRecordingDeathTest, SurvivesRecordingDuringTheProcessesExit) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            std::atexit([] {
                record_range("late", 2, 10, 20);
                const auto kept = take_ranges();
                ::_exit(kept && kept->ranges.size() == 2 ? 0 : 1);
            });
            keep_ranges("main");
            record_range("one", 1, 10, 20);
            std::exit(3);
        },
        testing::ExitedWithCode(0), "");
}

// For ThreadSanitizer.
TEST_F(TraceRecording, OneThreadStartsAndEndsItWhileOthersWork) {
    std::atomic<bool> over{false};
    std::vector<std::thread> workers;
    for (int worker = 0; worker < 3; ++worker)
        workers.emplace_back([&] {
            for (std::uint64_t i = 0; !over; ++i) {
                const TraceRange range(TraceName::Compute, i);
                record_device_range("d2h", i, 10, 20);
            }
        });
    for (int round = 0; round < 20; ++round) {
        std::size_t found = 0;
        while (found == 0) {
            ASSERT_TRUE(keep_ranges("main", {.most = 100}));
            std::this_thread::yield();  // to the recording threads
            found = take_ranges().value_or(RecordedRanges{}).ranges.size();
        }
        EXPECT_FALSE(recording());
    }
    over = true;
    for (std::thread& worker : workers) worker.join();
    EXPECT_FALSE(take_ranges());
}

}  // namespace
}  // namespace offramp
