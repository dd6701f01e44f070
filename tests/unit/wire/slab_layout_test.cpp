#include "common/wire/slab_layout.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include "common/base/error.hpp"
#include "common/wire/slab_header.hpp"
#include "common/wire/tensor_spec.hpp"
#include "tests/unit/wire/any_tensor.hpp"

namespace offramp {
namespace {

using testing::HasSubstr;

TEST(SlabLayout, LaysOutTheArticlesBatch) {
    const std::int64_t shape[] = {64, 21, 512, 512};
    const SlabLayout layout = SlabLayout::make({TensorSpec::contiguous("logits", kFloat32, shape)}, 64);
    EXPECT_EQ(layout.header_bytes, 4096U);
    EXPECT_EQ(layout.payload_bytes, 64ULL * 21 * 512 * 512 * 4);
    EXPECT_EQ(layout.slab_bytes, 4096 + 64ULL * 21 * 512 * 512 * 4);
}

RC_GTEST_PROP(SlabLayout, NothingOverlapsAndEverythingIsAligned, ()) {
    const auto rows = *rc::gen::inRange<std::int64_t>(1, 300);
    const auto batches = *rc::gen::inRange<std::uint32_t>(1, 50);
    const auto key_bytes = *rc::gen::inRange<std::size_t>(0, 100);
    std::vector<TensorSpec> outputs;
    for (std::size_t i = *rc::gen::inRange<std::size_t>(1, kMaxTensorsPerSlab + 1); i > 0; --i)
        outputs.push_back(any_dense_tensor("t" + std::to_string(i), *rc::gen::inRange<std::int64_t>(1, 4)));

    const SlabLayout layout = SlabLayout::make(outputs, rows, batches, key_bytes);
    RC_ASSERT(layout.tensors_offset >= sizeof(SlabHeader));
    RC_ASSERT(layout.batches_offset >= layout.tensors_offset + outputs.size() * sizeof(TensorRecord));
    RC_ASSERT(layout.samples_offset >= layout.batches_offset + batches * sizeof(BatchRecord));
    RC_ASSERT(layout.texts_offset >= layout.samples_offset + static_cast<std::size_t>(rows) * sizeof(SampleRecord));
    RC_ASSERT(layout.text_capacity == static_cast<std::size_t>(rows) * key_bytes);
    RC_ASSERT(layout.header_bytes >= layout.texts_offset + layout.text_capacity);
    RC_ASSERT(layout.tensors_offset % 8 == 0U);
    RC_ASSERT(layout.batches_offset % 8 == 0U);
    RC_ASSERT(layout.samples_offset % 8 == 0U);
    RC_ASSERT(layout.header_bytes % kPageBytes == 0U);
    RC_ASSERT(layout.slab_bytes % kPageBytes == 0U);

    std::size_t end = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        RC_ASSERT(layout.offsets[i] >= end);
        RC_ASSERT(layout.offsets[i] % kPayloadAlignment == 0U);
        RC_ASSERT(layout.tensors[i].rows() == rows);
        RC_ASSERT(layout.tensors[i].dense_rows());
        RC_ASSERT(layout.tensors[i].row_bytes() == outputs[i].row_bytes());
        end = layout.offsets[i] + static_cast<std::size_t>(rows) * outputs[i].row_bytes();
    }
    RC_ASSERT(layout.payload_bytes >= end);
    RC_ASSERT(layout.slab_bytes >= layout.header_bytes + layout.payload_bytes);
    RC_ASSERT(layout.slab_bytes < layout.header_bytes + end + kPayloadAlignment + kPageBytes);
}

// A batch of one sample may have any stride in dimension 0, as in PyTorch; several of them in one slab must
// not.
TEST(SlabLayout, RepairsTheStrideOfASingleSample) {
    TensorSpec one{.name = "t", .dims = 2, .shape = {1, 4}, .strides = {999, 1}};
    EXPECT_EQ(SlabLayout::make({one}, 3).tensors[0].strides[0], 4);
}

// Libraries differ in the stride of a dimension of one element.
RC_GTEST_PROP(SlabLayout, IsTheSameWhateverTheStridesOfSingleElementsAre, ()) {
    const TensorSpec plain = any_dense_tensor("t", *rc::gen::inRange<std::int64_t>(1, 3));
    TensorSpec other = plain;
    for (std::size_t d = 0; d < plain.dims; ++d)
        if (plain.shape[d] == 1) other.strides[d] = *rc::gen::inRange<std::int64_t>(-9, 1000);
    const auto rows = *rc::gen::inRange<std::int64_t>(1, 9);
    const TensorSpec laid_out = SlabLayout::make({other}, rows).tensors[0];
    RC_ASSERT(laid_out == SlabLayout::make({plain}, rows).tensors[0]);
    RC_ASSERT(laid_out == with_settled_strides(plain.with_rows(rows)));
    RC_ASSERT(has_strides(std::span(other.strides).first(other.dims), with_settled_strides(plain)));
    RC_ASSERT(has_strides(std::span(laid_out.strides).first(plain.dims), plain.with_rows(rows)));
    const TensorSpec row_major =
        TensorSpec::contiguous("t", plain.dtype, std::span(laid_out.shape).first(laid_out.dims));
    RC_ASSERT(!has_strides(std::span(row_major.strides).first(row_major.dims), laid_out) || laid_out == row_major);
}

std::string refusal(const std::vector<TensorSpec>& outputs, std::int64_t rows = 1, std::uint32_t batches = 1) {
    try {
        SlabLayout::make(outputs, rows, batches);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "taken";
}

TEST(SlabLayout, RefusesInvalidLayouts) {
    const std::int64_t shape[] = {2, 3};
    const TensorSpec good = TensorSpec::contiguous("t", kFloat32, shape);
    EXPECT_EQ(refusal({good}), "taken");
    EXPECT_EQ(refusal({good}, kMaxSamplesPerSlab, kMaxSamplesPerSlab), "taken");
    EXPECT_THAT(refusal({}), HasSubstr("a batch has 0 tensors. A slab holds 1 to 16"));
    EXPECT_THAT(refusal(std::vector<TensorSpec>(17, good)), HasSubstr("17 tensors"));
    EXPECT_THAT(refusal({good}, 0), HasSubstr("0 samples"));
    EXPECT_THAT(refusal({good}, kMaxSamplesPerSlab + 1), HasSubstr("65537 samples"));
    EXPECT_THAT(refusal({good}, 1, 0), HasSubstr("0 batches"));
    EXPECT_THAT(refusal({good}, 1, 4'000'000'000), HasSubstr("4000000000 batches"));

    TensorSpec bad = good;
    bad.name = "";
    EXPECT_THAT(refusal({bad}), HasSubstr("output name ''"));
    bad.name = std::string(64, 'n');
    EXPECT_THAT(refusal({bad}), HasSubstr("1 to 63 bytes"));
    bad = good;
    bad.shape[1] = 0;
    EXPECT_THAT(refusal({bad}), HasSubstr("t float32 [2, 0] is empty"));
    bad.shape[1] = -3;
    EXPECT_THAT(refusal({bad}), HasSubstr("[2, -3] is empty"));
    bad = good;
    bad.dims = 0;
    EXPECT_THAT(refusal({bad}), HasSubstr("no dimension"));
    bad = good;
    bad.strides[1] = 2;
    EXPECT_THAT(refusal({bad}), HasSubstr("is not dense. Pack it on the device first"));
    bad = good;
    bad.dtype.bits = 4;
    EXPECT_THAT(refusal({bad}), HasSubstr("t float4 [2, 3] has elements that are not whole bytes"));
}

TEST(SlabLayout, RefusesSizesThatWouldOverflow) {
    for (const std::int64_t extent : {std::int64_t{1} << 31, std::int64_t{1} << 40, std::int64_t{1} << 62}) {
        const TensorSpec huge{.name = "t", .dims = 4, .shape = {1, extent, extent, 4}, .strides = {0, 1, extent, 0}};
        EXPECT_THAT(refusal({huge}), HasSubstr("too large for a slab")) << extent;
    }
    const std::int64_t shape[] = {1, std::int64_t{1} << 30};
    const TensorSpec large = TensorSpec::contiguous("t", kFloat32, shape);
    EXPECT_EQ(refusal({large}, 64), "taken");
    EXPECT_THAT(refusal({large}, 65536), HasSubstr("too large for a slab of 65536 samples"));
}

RC_GTEST_PROP(SpanPlan, EverySlabHasItsOwnPlaceInOneSpan, ()) {
    const auto slabs = *rc::gen::inRange<std::uint32_t>(1, 200);
    const auto most = *rc::gen::inRange<std::uint32_t>(1, 40);
    const std::size_t bytes = kPageBytes * *rc::gen::inRange<std::size_t>(1, 100);
    const SpanPlan plan = SpanPlan::make(slabs, bytes, most);
    RC_ASSERT(plan.span_count >= 1U);
    RC_ASSERT(plan.span_count <= most);
    if (slabs <= most) RC_ASSERT(plan.span_count == slabs);

    std::uint32_t next = 0;
    std::size_t total = 0;
    for (std::uint32_t span = 0; span < plan.span_count; ++span) {
        RC_ASSERT(plan.slabs_in(span) >= 1U);
        RC_ASSERT(plan.span_bytes(span) == plan.slabs_in(span) * bytes);
        total += plan.span_bytes(span);
        for (std::uint32_t i = 0; i < plan.slabs_in(span); ++i, ++next) {
            RC_ASSERT(plan.span_of(next) == span);
            RC_ASSERT(plan.offset_in_span(next) == i * bytes);
        }
    }
    RC_ASSERT(next == slabs);
    RC_ASSERT(total == plan.total_bytes());
}

TEST(SpanPlan, TheFirstSpanOfALargePoolIsSmall) {
    constexpr std::size_t kMiB = 1 << 20;
    EXPECT_EQ(SpanPlan::make(8, 1344 * kMiB).span_count, 8U);
    EXPECT_EQ(SpanPlan::make(64, 168 * kMiB).slabs_per_span, 1U);
    EXPECT_EQ(SpanPlan::make(4096, kPageBytes).span_count, 16U);
}

}  // namespace
}  // namespace offramp
