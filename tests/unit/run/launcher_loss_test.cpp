#include "producer/runner/run/run_ending.hpp"

#include <gtest/gtest.h>

namespace offramp {
namespace {

// The tests of the lifecycle cover its calls.
class SilentRun : public StoppableRun {
  public:
    void end_input() override {}
    void stop_outputs() override {}
    void dismiss_consumers() override {}
};

class LauncherLossTest : public ::testing::Test {
  protected:
    SilentRun run_;
    RunLifecycle life_{run_};
    LauncherLoss launcher_{life_};
};

TEST_F(LauncherLossTest, AllowsMissingConsumersWhileTheLauncherLives) {
    life_.begin();
    launcher_.no_consumers();
    EXPECT_EQ(life_.state(), RunState::Running);
    EXPECT_TRUE(launcher_.may_be_succeeded());
}

TEST_F(LauncherLossTest, DrainsWithoutALauncherAndAbandonsWithoutConsumers) {
    life_.begin();
    launcher_.launcher_gone();
    EXPECT_EQ(life_.state(), RunState::Draining);
    EXPECT_FALSE(launcher_.may_be_succeeded()) << "no launcher would start a successor";
    launcher_.no_consumers();
    EXPECT_TRUE(life_.is_stopped(StopMode::Abandon));
}

TEST_F(LauncherLossTest, AbandonsAHaltedRunToo) {
    life_.begin();
    life_.stop(StopMode::Halt, "a test");
    EXPECT_TRUE(launcher_.may_be_succeeded());
    launcher_.launcher_gone();
    EXPECT_EQ(life_.stopped(), StopMode::Halt);
    launcher_.no_consumers();
    EXPECT_EQ(life_.stopped(), StopMode::Abandon);
}

TEST_F(LauncherLossTest, AStartingRunHasNoConsumersYet) {
    launcher_.launcher_gone();
    launcher_.no_consumers();
    EXPECT_EQ(life_.stopped(), StopMode::Drain);
    EXPECT_EQ(life_.state(), RunState::Starting);
}

TEST_F(LauncherLossTest, OnlyAnUnfinishedRunMayBeSucceeded) {
    EXPECT_TRUE(launcher_.may_be_succeeded());
    life_.stop(StopMode::Drain, "a test");
    EXPECT_TRUE(launcher_.may_be_succeeded());
    life_.begin();
    life_.end();
    EXPECT_FALSE(launcher_.may_be_succeeded());
    RunLifecycle other(run_);
    other.stop(StopMode::Abandon, "a test");
    EXPECT_FALSE(LauncherLoss(other).may_be_succeeded());
}

}  // namespace
}  // namespace offramp
