#include "consumer/session/consumer_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.hpp"
#include "common/shm/run_objects.hpp"
#include "common/shm/shared_region.hpp"
#include "tests/unit/shm/own_objects.hpp"

namespace offramp {
namespace {

using support::objects_of;
using support::own_run;
using ::testing::IsEmpty;
using ::testing::SizeIs;

SlabProcessor& never_made(std::uint32_t) {
    ADD_FAILURE() << "it was not let in, and made its processor";
    throw std::logic_error("made");
}

// Joined: it holds the run's lock. Let in: never, as the run has no ledger that it could read.
void join_in_vain(const RunNames& names) {
    const Endpoint endpoint{.run_dir = "/nonexistent", .names = names, .producer_pid = 1, .epoch = 1};
    EXPECT_THROW(consume_run(endpoint, {}, never_made), Error);
}

// The producer saw this consumer's lock when it left, and left the sweep to it.
TEST(ConsumerRun, SweepsWhenItIsTheLastAndWasNeverLetIn) {
    const auto names = own_run("vain");
    { const auto lock = RunLock::hold(names, true); }
    SharedRegion::create(names.span(0), 4096).keep_name();
    ASSERT_THAT(objects_of(names), SizeIs(2));
    join_in_vain(names);
    EXPECT_THAT(objects_of(names), IsEmpty());
}

TEST(ConsumerRun, LeavesARunThatLivesAlone) {
    const auto names = own_run("lives");
    {
        const auto lock = RunLock::hold(names, true);
        join_in_vain(names);
        EXPECT_THAT(objects_of(names), SizeIs(1));
    }
    EXPECT_TRUE(sweep_run(names));
}

}  // namespace
}  // namespace offramp
