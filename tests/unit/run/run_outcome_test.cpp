#include "producer/runner/run/run_ending.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace offramp {
namespace {

// Of ten items two were unreadable, and eight were completed.
RunStats all_done() {
    RunStats stats{.sourced = 10, .skipped = 2};
    stats.broker.published.samples = 8;
    stats.broker.completed.samples = 8;
    return stats;
}

constexpr RunOutcome kToItsEnd{.items = 10};

TEST(RunOutcome, ACompleteRunSucceeds) {
    EXPECT_EQ(kToItsEnd.exit_code(all_done()), ExitCode::Ok);
    EXPECT_EQ((RunOutcome{.items = 15, .done_before = 5}.exit_code(all_done())), ExitCode::Ok);
    EXPECT_EQ((RunOutcome{.items = 10, .stopped = StopMode::Drain}.exit_code(all_done())), ExitCode::Ok)
        << "no work was left when it was asked to drain";
}

TEST(RunOutcome, ARunStoppedBeforeTheEndOfItsInputIsInterrupted) {
    EXPECT_EQ((RunOutcome{.items = 11, .stopped = StopMode::Drain}.exit_code(all_done())), ExitCode::Interrupted);
    EXPECT_EQ((RunOutcome{.items = 10, .stopped = StopMode::Abandon}.exit_code(all_done())), ExitCode::Interrupted);
}

TEST(RunOutcome, ReportsDeadLettersOfARequiredGroup) {
    RunStats stats = all_done();
    stats.broker.groups = {{.name = "a"}, {.name = "extra", .optional = true, .dead_lettered = {.slabs = 1}}};
    EXPECT_EQ(kToItsEnd.exit_code(stats), ExitCode::Ok);
    stats.broker.groups[0].dead_lettered.slabs = 1;
    EXPECT_EQ(kToItsEnd.exit_code(stats), ExitCode::DeadLetters) << "of a slab that another group dropped before";
}

TEST(RunOutcome, ReportsDeadLetters) {
    RunStats stats = all_done();
    stats.broker.completed.samples = 5;
    stats.broker.dead_lettered = {.slabs = 1, .samples = 3};
    EXPECT_EQ(kToItsEnd.exit_code(stats), ExitCode::DeadLetters);
    EXPECT_EQ((RunOutcome{.items = 11, .stopped = StopMode::Drain}.exit_code(stats)), ExitCode::Interrupted);
}

TEST(RunOutcome, AccountsForDroppedAndAbandonedItems) {
    RunStats stats = all_done();
    stats.broker.published.samples = stats.broker.completed.samples = 5;
    stats.dropped.samples = 3;
    EXPECT_EQ(kToItsEnd.exit_code(stats), exit_code_for(ErrorKind::CountMismatch));
    EXPECT_EQ((RunOutcome{.items = 10, .stopped = StopMode::Abandon}.exit_code(stats)), ExitCode::Interrupted);
    stats.dropped_when_full.samples = 3;
    EXPECT_EQ(kToItsEnd.exit_code(stats), ExitCode::Ok);
}

TEST(RunOutcome, ASampleThatWasDroppedWhileItWaitedIsAccountedForOnce) {
    RunStats stats = all_done();
    stats.broker.completed.samples = 5;
    stats.broker.dropped.samples = stats.dropped.samples = stats.dropped_when_full.samples = 3;
    EXPECT_EQ(kToItsEnd.exit_code(stats), ExitCode::Ok);
    stats.broker.completed.samples = 8;
    EXPECT_EQ(kToItsEnd.exit_code(stats), exit_code_for(ErrorKind::CountMismatch));
}

TEST(RunOutcome, ReportsInconsistentNumbers) {
    const std::function<void(RunStats&)> faults[] = {
        [](RunStats& stats) { ++stats.sourced; },
        [](RunStats& stats) { --stats.skipped; },
        [](RunStats& stats) { ++stats.broker.published.samples; },
        [](RunStats& stats) { --stats.broker.completed.samples; },
        [](RunStats& stats) { ++stats.broker.in_flight.samples; },
        [](RunStats& stats) { ++stats.broker.spilled.samples; },
    };
    for (const auto& fault : faults) {
        RunStats stats = all_done();
        fault(stats);
        EXPECT_EQ(kToItsEnd.exit_code(stats), exit_code_for(ErrorKind::CountMismatch)) << &fault - faults;
    }
}

}  // namespace
}  // namespace offramp
