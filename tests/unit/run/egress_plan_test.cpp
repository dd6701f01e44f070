#include "producer/runner/run/egress_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

constexpr std::uint32_t kPoolBatches = 8;  // on a GPU

std::vector<TensorSpec> bytes_a_sample(std::uint32_t batch, std::int64_t bytes) {
    const std::int64_t shape[] = {batch, bytes};
    return {TensorSpec::contiguous("payload", kUInt8, shape)};
}

EgressPlan plan_of(const RunConfig& config, std::int64_t sample_bytes, const EgressTraits& traits = {}) {
    return EgressPlan::make(config, traits, bytes_a_sample(config.batch, sample_bytes), 0, true);
}

RunConfig with_batch(std::uint32_t batch) {
    RunConfig config;
    config.batch = batch;
    return config;
}

TEST(EgressPlan, CutsABigBatchIntoSlabsOfAQuarterGigabyte) {
    const EgressPlan plan = plan_of(with_batch(64), std::int64_t{21} * 512 * 512 * 4);
    EXPECT_EQ(plan.layout.rows, 11);
    EXPECT_LE(plan.layout.payload_bytes, std::size_t{256} << 20);
    EXPECT_EQ(plan.spans.slab_count, 6 * kPoolBatches) << "the pool holds as many batches as before";
    EXPECT_EQ(plan.layout.batches, 1U);
    EXPECT_EQ(plan.queue_depth, 1U);
    EXPECT_EQ(plan.pace.timed, 1U);
}

TEST(EgressPlan, SmallBatchesShareASlab) {
    const EgressPlan plan = plan_of(with_batch(64), 4096);
    EXPECT_EQ(plan.layout.batches, 64U);
    EXPECT_EQ(plan.layout.rows, 64 * 64);
    EXPECT_GT(plan.queue_depth, 1U);
    EXPECT_EQ(plan.pace.depth % plan.pace.timed, 0U);
}

TEST(EgressPlan, TimesEveryBatchOfARecordedOrMeasuredRun) {
    const EgressPlan usual = plan_of(with_batch(64), 4096);
    EXPECT_GT(usual.pace.timed, 1U);
    RunConfig recorded = with_batch(64);
    recorded.trace_dir = "/somewhere";
    EXPECT_EQ(plan_of(recorded, 4096).pace.timed, 1U);
    RunConfig measured = with_batch(64);
    measured.drain_warmup = true;
    EXPECT_EQ(plan_of(measured, 4096).pace.timed, 1U);
    EXPECT_EQ(plan_of(measured, 4096).pace.depth, usual.pace.depth);
}

TEST(EgressPlan, SettingSlabsOrSamplesKeepsBatchesWhole) {
    RunConfig config = with_batch(64);
    config.slabs = 5;
    EXPECT_EQ(plan_of(config, 4096).layout.batches, 1U);
    EXPECT_EQ(plan_of(config, std::int64_t{21} << 20).layout.rows, 64);
    EXPECT_EQ(plan_of(config, std::int64_t{21} << 20).spans.slab_count, 5U);
    config = with_batch(64);
    config.samples_per_slab = 3;
    EXPECT_EQ(plan_of(config, 4096).layout.rows, 3);
    EXPECT_EQ(plan_of(config, 4096).spans.slab_count, 22 * kPoolBatches);
    config.samples_per_slab = 100;
    EXPECT_EQ(plan_of(config, 4096).layout.rows, 64) << "no slab is larger than a batch because of it";
}

TEST(EgressPlan, ABatchMayNotFillMoreSlabsThanARunThatDrops) {
    RunConfig config = with_batch(64);
    config.samples_per_slab = 3;
    config.slabs = 21;
    EXPECT_NO_THROW(plan_of(config, 4096)) << "it waits";
    for (const std::string policy : {"drop", "drop-oldest"}) {
        config.when_full = policy;
        config.slabs = 21;
        EXPECT_THAT(test::error_of<ConfigError>([&] { plan_of(config, 4096); }),
                    testing::AllOf(testing::HasSubstr("a batch of 64 samples fills 22 slabs"),
                                   testing::HasSubstr(policy + " has 21"), testing::HasSubstr("more --slabs")));
        EXPECT_NO_THROW(plan_of(config, 4096, {.outputs_dropped = true}));
        config.slabs = 22;
        EXPECT_NO_THROW(plan_of(config, 4096));
    }
    config.when_full = "wait";
    config.slabs = 21;
    config.group = "a=npy\nextra=checksum,optional";
    EXPECT_NO_THROW(plan_of(config, 4096));
    config.group = "a=npy\nb=checksum,drop-oldest";
    EXPECT_THAT(test::error_of<ConfigError>([&] { plan_of(config, 4096); }),
                testing::HasSubstr("drop-oldest in group b has 21"));
}

TEST(EgressPlan, SharesAsSetUpToASlabsLimit) {
    RunConfig config = with_batch(4096);
    config.batches_per_slab = 100;
    EXPECT_EQ(plan_of(config, 16).layout.batches, 16U);
    config = with_batch(8);
    config.batches_per_slab = 3;
    EXPECT_EQ(plan_of(config, std::int64_t{8} << 20).layout.batches, 3U);
    config.slabs = 7;
    EXPECT_EQ(plan_of(config, std::int64_t{8} << 20).layout.batches, 3U);
    EXPECT_EQ(plan_of(config, std::int64_t{8} << 20).spans.slab_count, 7U);
}

TEST(EgressPlan, SharesSlabsOnlyWhereTheStrategySupportsIt) {
    const EgressTraits apart{.batches_share_slabs = false};
    EXPECT_EQ(plan_of(with_batch(64), 4096, apart).layout.batches, 1U);
    EXPECT_EQ(plan_of(with_batch(64), 4096, apart).pace.depth, plan_of(with_batch(64), 4096).pace.depth)
        << "compared runs have one pace";
}

std::vector<TensorSpec> tokens_a_sample(std::uint32_t batch) {
    std::vector<TensorSpec> outputs = bytes_a_sample(batch, kVarying);
    outputs.front().strides = {};
    return outputs;
}

EgressPlan varying_plan_of(const RunConfig& config, std::size_t most_bytes, const EgressTraits& traits = {}) {
    return EgressPlan::make(config, traits, tokens_a_sample(config.batch), 0, true, most_bytes);
}

TEST(EgressPlan, ASlabOfSamplesThatDifferInShapeTakesABatchOfTheLargest) {
    EXPECT_EQ(varying_plan_of(with_batch(64), std::size_t{512} << 10).layout.varying_bytes, std::size_t{32} << 20);
    EXPECT_EQ(varying_plan_of(with_batch(64), 4096).layout.varying_bytes, std::size_t{16} << 20);
    EXPECT_EQ(varying_plan_of(with_batch(4096), std::size_t{1} << 20).layout.varying_bytes, std::size_t{64} << 20);
    EXPECT_EQ(varying_plan_of(with_batch(2), std::size_t{80} << 20).layout.varying_bytes, std::size_t{80} << 20);
}

TEST(EgressPlan, RefusesSettingsThatNeedSamplesOfOneShape) {
    RunConfig config = with_batch(64);
    config.batches_per_slab = 2;
    EXPECT_THAT([&] { varying_plan_of(config, 4096); },
                testing::ThrowsMessage<ConfigError>(testing::HasSubstr("which --batches-per-slab does not support")));
    const EgressTraits rung{.name = "pool", .one_shape = true};
    EXPECT_THAT([&] { varying_plan_of(with_batch(64), 4096, rung); },
                testing::ThrowsMessage<ConfigError>(testing::HasSubstr("which --strategy pool does not support")));
}

TEST(EgressPlan, RecreatedSegmentsAreSeparate) {
    EXPECT_EQ(plan_of(with_batch(64), std::int64_t{21} << 20, {.slabs = EgressTraits::Slabs::MadePerFilling})
                  .spans.slabs_per_span,
              1U);
}

}  // namespace
}  // namespace offramp
