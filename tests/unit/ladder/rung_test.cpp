#include "producer/ladder/rung_egress.hpp"

#include <gtest/gtest.h>

#include "common/base/error.hpp"

namespace offramp {
namespace {

TEST(Rung, EachDiffersFromThePreviousAsInTheArticle) {
    const Rung& sequential = Rung::named("sequential");
    const Rung& workers = Rung::named("workers");
    const Rung& pool = Rung::named("pool");
    const Rung& async = Rung::named("async");
    const Rung& streams = Rung::named("streams");
    EXPECT_EQ(sequential.processing, Rung::Processing::InProducer);
    EXPECT_EQ(workers.processing, Rung::Processing::InConsumers);
    EXPECT_EQ(workers.memory, Rung::Memory::FreshSegment);
    EXPECT_EQ(pool.memory, Rung::Memory::Pool);
    EXPECT_EQ(pool.waiting, Rung::Waiting::ByModelThread);
    EXPECT_EQ(async.waiting, Rung::Waiting::ByOtherThread);
    EXPECT_EQ(async.memory, Rung::Memory::PageLockedPool);
    EXPECT_EQ(async.copies, Rung::Copies::OnComputeStream);
    EXPECT_EQ(streams.copies, Rung::Copies::OnOwnStream);
    EXPECT_EQ(streams.memory, async.memory);
}

TEST(Rung, RefusesAnyOtherName) { EXPECT_THROW(Rung::named("stream"), ConfigError); }

}  // namespace
}  // namespace offramp
