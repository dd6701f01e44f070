#include "consumer/session/consumer_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/base/error.hpp"
#include "common/shm/run_objects.hpp"
#include "common/shm/shared_region.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/unit/shm/own_objects.hpp"

namespace offramp {
namespace {

using support::objects_of;
using support::own_run;
using ::testing::IsEmpty;
using ::testing::SizeIs;

SlabProcessor& never_made(std::uint32_t) {
    ADD_FAILURE() << "it created its processor without admission";
    throw std::logic_error("made");
}

std::uint64_t dead_pid() {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    ::waitpid(child, nullptr, 0);
    return static_cast<std::uint64_t>(child);
}

ErrorKind end_of(const Endpoint& endpoint) { return consume_run(endpoint, {}, never_made).error; }

// Joined: it holds the run's lock. Never admitted, as it cannot read the run's ledger.
void join_and_fail(const RunNames& names) {
    EXPECT_EQ(end_of({.run_dir = "/nonexistent", .names = names, .producer_pid = dead_pid(), .epoch = 1}),
              ErrorKind::None);
}

// The producer saw this consumer's lock when it left, and left the sweep to it.
TEST(ConsumerRun, SweepsAsTheLastOneEvenIfNeverAdmitted) {
    const auto names = own_run("vain");
    {
        const auto lock = RunLock::hold(names, true);  // protects it from other sweeps until it is complete
        SharedRegion::create(names.span(0), 4096).keep_name();
        ASSERT_THAT(objects_of(names), SizeIs(2));
    }
    join_and_fail(names);
    EXPECT_THAT(objects_of(names), IsEmpty());
}

// The run was found, and closes before the join: its endpoint is gone, or the next run's.
TEST(ConsumerRun, EndsInOrderWhenTheRunIsOverBeforeTheJoin) {
    const test::ScratchFolder folder;
    const std::string& run_dir = folder.path();
    std::filesystem::create_directory(run_dir + "/live");
    Endpoint endpoint{.run_dir = run_dir, .names = own_run("over"), .producer_pid = 1, .epoch = 1};
    EXPECT_EQ(end_of(endpoint), ErrorKind::None);
    Endpoint next = endpoint;
    ++next.names.nonce;
    next.publish();
    EXPECT_EQ(end_of(endpoint), ErrorKind::None);
    const Endpoint dead{.run_dir = run_dir, .names = own_run("dead"), .producer_pid = dead_pid(), .epoch = 1};
    dead.publish();
    EXPECT_EQ(end_of(dead), ErrorKind::ProducerGone) << "its endpoint is still there";
}

TEST(ConsumerRun, DoesNotSweepALiveRun) {
    const auto names = own_run("lives");
    {
        const auto lock = RunLock::hold(names, true);
        join_and_fail(names);
        EXPECT_THAT(objects_of(names), SizeIs(1));
    }
    EXPECT_TRUE(sweep_run(names));
}

}  // namespace
}  // namespace offramp
