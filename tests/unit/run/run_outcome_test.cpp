#include "producer/runner/run/run_outcome.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace offramp {
namespace {

// Of ten items two were unreadable, and eight were completed.
RunFigures all_done() {
    RunFigures figures{.sourced = 10, .skipped = 2};
    figures.broker.published.samples = 8;
    figures.broker.completed.samples = 8;
    return figures;
}

constexpr RunOutcome kToItsEnd{.items = 10};

TEST(RunOutcome, ARunThatDidAllThatThereWasEndsWell) {
    EXPECT_EQ(kToItsEnd.exit_code(all_done()), ExitCode::Ok);
    EXPECT_EQ((RunOutcome{.items = 15, .done_before = 5}.exit_code(all_done())), ExitCode::Ok);
    EXPECT_EQ((RunOutcome{.items = 10, .stopped = StopMode::Drain}.exit_code(all_done())), ExitCode::Ok)
        << "nothing was left when it was asked to drain";
}

TEST(RunOutcome, ARunThatWasStoppedBeforeTheEndOfItsInputIsInterrupted) {
    EXPECT_EQ((RunOutcome{.items = 11, .stopped = StopMode::Drain}.exit_code(all_done())), ExitCode::Interrupted);
    EXPECT_EQ((RunOutcome{.items = 10, .stopped = StopMode::Abandon}.exit_code(all_done())), ExitCode::Interrupted);
}

TEST(RunOutcome, DeadLettersAreSaid) {
    RunFigures figures = all_done();
    figures.broker.completed.samples = 5;
    figures.broker.quarantined = {.slabs = 1, .samples = 3};
    EXPECT_EQ(kToItsEnd.exit_code(figures), ExitCode::SetAside);
    EXPECT_EQ((RunOutcome{.items = 11, .stopped = StopMode::Drain}.exit_code(figures)), ExitCode::Interrupted);
}

TEST(RunOutcome, WhatWasDroppedForWantOfASlabIsAccountedForAndWhatWasAbandonedOnlyByAnAbandonedRun) {
    RunFigures figures = all_done();
    figures.broker.published.samples = figures.broker.completed.samples = 5;
    figures.dropped.samples = 3;
    EXPECT_EQ(kToItsEnd.exit_code(figures), exit_code_for(ErrorKind::Conservation));
    EXPECT_EQ((RunOutcome{.items = 10, .stopped = StopMode::Abandon}.exit_code(figures)), ExitCode::Interrupted);
    figures.dropped_when_full.samples = 3;
    EXPECT_EQ(kToItsEnd.exit_code(figures), ExitCode::Ok);
}

TEST(RunOutcome, NumbersThatDoNotAgreeAreAFault) {
    const std::function<void(RunFigures&)> faults[] = {
        [](RunFigures& figures) { ++figures.sourced; },
        [](RunFigures& figures) { --figures.skipped; },
        [](RunFigures& figures) { ++figures.broker.published.samples; },
        [](RunFigures& figures) { --figures.broker.completed.samples; },
        [](RunFigures& figures) { ++figures.broker.in_flight.samples; },
        [](RunFigures& figures) { ++figures.broker.spilled.samples; },
    };
    for (const auto& fault : faults) {
        RunFigures figures = all_done();
        fault(figures);
        EXPECT_EQ(kToItsEnd.exit_code(figures), exit_code_for(ErrorKind::Conservation)) << &fault - faults;
    }
}

}  // namespace
}  // namespace offramp
