#include "producer/runner/transforms/score_review.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "common/base/error.hpp"
#include "common/numerics/float16_bits.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kScores = 3000;  // more than one block

// Items come one by one, each with an output of one channel and others, in a slab of one row.
class ScoreReviewTest : public testing::Test {
  protected:
    void begin(DType dtype, ScoreReview::Settings settings) {
        const std::int64_t mask[] = {1, 1, 3, kScores / 3}, vector[] = {1, 8}, classes[] = {1, 2, 1, 1};
        layout_ = SlabLayout::make(
            {TensorSpec::contiguous("vector", kFloat32, vector), TensorSpec::contiguous("mask", dtype, mask),
             TensorSpec::contiguous("classes", kFloat32, classes)},
            1);
        memory_.assign(layout_.slab_bytes, std::byte{0xff});  // NaN where the review must not read
        settings.skip = [this](std::uint64_t item, const std::string& reason) {
            skipped_.push_back(std::to_string(item) + ": " + reason);
            return skipped_.size() > allowed_;
        };
        settings.too_many = [this] { ++too_many_; };
        review_.emplace(layout_, settings);
    }

    // True if an item passes with this score in one place and 0.5 elsewhere.
    bool passes(float score, std::int64_t at = kScores - 1) {
        batch_.rows = {RowInfo{.item = item_++}};
        SlabWriter slab(memory_, layout_);
        slab.begin({});
        const SampleEntry entry{.item = batch_.rows[0].item};
        EXPECT_TRUE(slab.add_batch(0, 0, {&entry, 1}));
        const auto to = slab.tensor_rows(1, 0, 1);
        for (std::int64_t i = 0; i < kScores; ++i) put(to, static_cast<std::size_t>(i), i == at ? score : 0.5F);
        const bool passes = review_->passes(batch_, 0, slab, 0);
        review_->end_slab();
        return passes;
    }

    void put(std::span<std::byte> to, std::size_t index, float score) const {
        const auto bits = std::bit_cast<std::uint32_t>(score);
        const DType dtype = layout_.tensors[1].dtype;
        if (dtype == kFloat32) return void(std::memcpy(to.data() + 4 * index, &score, 4));
        const auto half = dtype == kFloat16 ? float16_bits(bits) : static_cast<std::uint16_t>(bits >> 16U);
        std::memcpy(to.data() + 2 * index, &half, 2);
    }

    std::string refusal(float score) {
        return test::error_of<ConfigError>([&] { passes(score); }, ErrorKind::Usage);
    }

    SlabLayout layout_;
    std::vector<std::byte> memory_;
    std::optional<ScoreReview> review_;
    OutputBatch batch_;
    std::uint64_t item_ = 0;
    std::size_t allowed_ = 1000;
    std::vector<std::string> skipped_;
    int too_many_ = 0;
};

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST_F(ScoreReviewTest, SkipsAnItemWithAnImpossibleScore) {
    for (const DType dtype : {kFloat32, kFloat16, kBFloat16}) {
        item_ = 0;
        skipped_.clear();
        begin(dtype, {.in_slabs = true, .passed_before = 100});
        for (const float good : {0.0F, 1.0F, -0.005F, 1.005F}) EXPECT_TRUE(passes(good)) << good;
        EXPECT_FALSE(passes(-3.25F));
        EXPECT_FALSE(passes(1.5F, 0));
        EXPECT_FALSE(passes(NAN, 1023));
        EXPECT_FALSE(passes(kInf, 1024));
        EXPECT_THAT(skipped_,
                    ElementsAre(AllOf(HasSubstr("4: output mask "),
                                      HasSubstr("[1, 1, 3, 1000] holds -3.25 as the foreground's probability")),
                                HasSubstr("5: "), AllOf(HasSubstr("6: "), HasSubstr("NaN")), HasSubstr("inf")))
            << layout_.tensors[1].describe();
    }
}

TEST_F(ScoreReviewTest, ALogitIsAnyNumber) {
    begin(kFloat32, {.scale = ForegroundScale::of("logit", 0.5), .in_slabs = true});
    for (const float good : {-900.0F, 900.0F, -kInf, kInf}) EXPECT_TRUE(passes(good)) << good;
    EXPECT_FALSE(passes(NAN));
}

TEST_F(ScoreReviewTest, ChecksOnlyScoresUsedAsForeground) {
    begin(kFloat32, {});
    EXPECT_TRUE(passes(NAN));
    EXPECT_THAT(skipped_, IsEmpty());
}

TEST_F(ScoreReviewTest, UsesTheDevicesFindings) {
    begin(kFloat32, {});
    const auto memory =
        std::shared_ptr<DeviceBuffer>(open_cpu_device()->allocate_pinned_host(sizeof(float), "outliers"));
    batch_.outliers = {{.output = "output matte float32 [1, 1, 4, 4]", .memory = memory}};
    const float outlier = 7;
    std::memcpy(memory->data(), &outlier, sizeof outlier);
    EXPECT_FALSE(passes(0));
    EXPECT_THAT(skipped_, ElementsAre(HasSubstr("output matte float32 [1, 1, 4, 4] holds 7")));
}

TEST_F(ScoreReviewTest, RefusesLogitsFromTheFirstItem) {
    begin(kFloat32, {.in_slabs = true});
    for (std::uint64_t i = 1; i < ScoreReview::kAllWrong; ++i) EXPECT_FALSE(passes(-2));
    EXPECT_THAT(refusal(-2), AllOf(HasSubstr("the item '0'"), HasSubstr("holds -2"), HasSubstr("8 of 8 items"),
                                   HasSubstr("--scores logit")));
    EXPECT_EQ(too_many_, 0);
}

TEST_F(ScoreReviewTest, DoesNotRefuseAfterOneValidItem) {
    begin(kFloat32, {.in_slabs = true});
    EXPECT_TRUE(passes(0.5F));
    for (int i = 0; i < 20; ++i) EXPECT_FALSE(passes(-2));
    begin(kFloat32, {.in_slabs = true, .passed_before = 1});  // in the run that is continued
    for (int i = 0; i < 20; ++i) EXPECT_FALSE(passes(-2));
    begin(kFloat32, {.in_slabs = true});
    for (int i = 0; i < 20; ++i) EXPECT_FALSE(passes(NAN)) << "these are no logits";
}

TEST_F(ScoreReviewTest, ReportsLogitsWhenMostItemsFail) {
    allowed_ = 2;
    begin(kFloat32, {.in_slabs = true});
    EXPECT_TRUE(passes(0.5F));
    EXPECT_FALSE(passes(-2));
    EXPECT_FALSE(passes(-2));
    EXPECT_THAT(refusal(-2), HasSubstr("3 of 4 items"));
    skipped_.clear();
    begin(kFloat32, {.in_slabs = true, .passed_before = 3});
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(passes(-2));
    EXPECT_EQ(too_many_, 1);
}

}  // namespace
}  // namespace offramp
