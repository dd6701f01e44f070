#include "producer/egress/slab_plan.hpp"

#include <gtest/gtest.h>

namespace offramp {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;

// Texts of any length, and `fixed` bytes per sample that do not vary.
SlabPlan plan_of(const SlabPlan::Wanted& wanted, std::int64_t fixed = 0) {
    const std::int64_t varying[] = {wanted.batch, kVarying, 8}, dense[] = {wanted.batch, fixed};
    std::vector<TensorSpec> outputs{TensorSpec::contiguous("tokens", kFloat32, varying)};
    if (fixed > 0) outputs.push_back(TensorSpec::contiguous("image", kUInt8, dense));
    return SlabPlan::make(outputs, wanted, true);
}

TEST(VaryingSlabPlan, LargerSlabsAreFewer) {
    EXPECT_EQ(plan_of({.batch = 8}).slab_count, 16U);
    EXPECT_EQ(plan_of({.batch = 8}).layout.varying_bytes, 64 * kMebibyte);
    EXPECT_EQ(plan_of({.batch = 8, .slab_bytes = 512 * kMebibyte}).slab_count, 7U) << "their headers count, too";
    EXPECT_EQ(plan_of({.batch = 8, .slab_bytes = 4096 * kMebibyte}).slab_count, 4U);
    EXPECT_EQ(plan_of({.batch = 8, .slabs = 9, .slab_bytes = 4096 * kMebibyte}).slab_count, 9U);
    EXPECT_EQ(plan_of({.batch = 1}, 1024 * kMebibyte).slab_count, 4U) << "a large output that does not vary";
}

TEST(VaryingSlabPlan, ALargeOutputThatDoesNotVaryKeepsASlabsWorthOfSamples) {
    EXPECT_EQ(plan_of({.batch = 64}, 32 * kMebibyte).layout.rows, 8) << "256 MiB of them";
    EXPECT_EQ(plan_of({.batch = 4}, 32 * kMebibyte).layout.rows, 4) << "a batch's";
    EXPECT_EQ(plan_of({.batch = 64}, 1024 * kMebibyte).layout.rows, 1);
    EXPECT_EQ(plan_of({.batch = 1}, 1024).layout.rows, plan_of({.batch = 1}).layout.rows) << "a small one";
}

TEST(VaryingSlabPlan, LongTextsTakeAnEighthOfASlab) {
    const SlabPlan plan = plan_of({.batch = 8, .max_key_bytes = 1024});
    EXPECT_EQ(plan.layout.rows, 8192);
    EXPECT_EQ(plan.layout.text_capacity, 8 * kMebibyte);
}

TEST(SlabPlan, LongMetadataLeavesFewerBatchesInASlab) {
    const std::int64_t shape[] = {64, 1024};
    const std::vector<TensorSpec> outputs{TensorSpec::contiguous("scores", kUInt8, shape)};
    EXPECT_EQ(SlabPlan::make(outputs, {.batch = 64}, true).layout.batches, 64U);
    const SlabPlan plan = SlabPlan::make(outputs, {.batch = 64, .metadata_bytes = 15 * 1024}, true);
    EXPECT_EQ(plan.layout.batches, 13U) << "of 64 samples";
}

// A dead letter's file has all texts in its header, of at most 100 MB, and writes a byte as up to seven.
TEST(SlabPlan, TextsOfASlabAreBounded) {
    const std::int64_t dense[] = {65536, 8}, varying[] = {65536, kVarying};
    for (const auto shape : {std::span(dense), std::span(varying)})
        for (const std::uint32_t samples_per_slab : {0U, 65536U})
            for (const std::uint32_t slabs : {0U, 3U})
                for (const std::size_t metadata_bytes : {1024U, 16384U}) {
                    const SlabPlan plan = SlabPlan::make({TensorSpec::contiguous("scores", kUInt8, shape)},
                                                         {.batch = 65536,
                                                          .samples_per_slab = samples_per_slab,
                                                          .slabs = slabs,
                                                          .max_key_bytes = 1024,
                                                          .metadata_bytes = metadata_bytes},
                                                         true);
                    EXPECT_LE(plan.layout.text_capacity * 7, 100'000'000U);
                    EXPECT_GE(plan.layout.rows, 400);
                }
}

TEST(VaryingSlabPlan, SamplesPerSlabAreAsWanted) {
    EXPECT_EQ(plan_of({.batch = 8, .samples_per_slab = 3}).layout.rows, 3);
    EXPECT_EQ(plan_of({.batch = 8, .samples_per_slab = 50000}).layout.rows, 50000);
}

}  // namespace
}  // namespace offramp
