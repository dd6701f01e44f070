#include "consumer/session/consumer_run.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/error.hpp"
#include "common/transport/endpoint.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/unit/session/fake_run.hpp"

namespace offramp {
namespace {

class RunConnectionTest : public ::testing::Test {
  protected:
    RunConnectionTest() { std::filesystem::create_directory(run_dir_ + "/live"); }

    void publish(const RunNames& names, std::uint32_t epoch) const {
        Endpoint{.run_dir = run_dir_, .names = names, .producer_pid = 1, .epoch = epoch}.publish();
    }

    FakeRun run_;
    test::ScratchFolder folder_;
    std::string run_dir_ = folder_.path();
};

TEST_F(RunConnectionTest, TheEndpointShowsWhetherTheRunExists) {
    const RunConnection connection(run_dir_, run_.names(),
                                   LedgerView::check(run_.ledger_bytes(), run_.names()));  // has joined epoch 0
    EXPECT_EQ(connection.liveness(), RunLiveness::Closed) << "no file";
    publish(run_.names(), 0);
    EXPECT_EQ(connection.liveness(), RunLiveness::Open);
    publish(run_.names(), 1);
    EXPECT_EQ(connection.liveness(), RunLiveness::TakenOver);
    publish({.run_id = run_.names().run_id, .nonce = run_.names().nonce + 1}, 1);
    EXPECT_EQ(connection.liveness(), RunLiveness::Replaced);
    std::ofstream(run_dir_ + "/live/endpoint") << "something else\n";
    EXPECT_EQ(connection.liveness(), RunLiveness::Open) << "an unreadable file proves nothing";
    std::filesystem::remove_all(run_dir_);
    EXPECT_EQ(connection.liveness(), RunLiveness::Closed) << "no folder";
    run_.remove_ledger();
    EXPECT_EQ(connection.liveness(), RunLiveness::Over);
    std::filesystem::create_directories(run_dir_ + "/live");
    publish({.run_id = run_.names().run_id, .nonce = run_.names().nonce + 1}, 1);
    EXPECT_EQ(connection.liveness(), RunLiveness::OverAndReplaced);
}

TEST_F(RunConnectionTest, DoesNotWaitBesideAnotherRun) {
    RunConnection connection(run_dir_, run_.names(), LedgerView::check(run_.ledger_bytes(), run_.names()));
    EXPECT_FALSE(connection.look());
    publish({.run_id = run_.names().run_id, .nonce = run_.names().nonce + 1}, 0);  // epoch 0, as the joined run
    try {
        connection.look();
        FAIL() << "the other run was not noticed";
    } catch (const Error& problem) {
        EXPECT_EQ(problem.kind(), ErrorKind::NoSuchRun);
    }
}

}  // namespace
}  // namespace offramp
