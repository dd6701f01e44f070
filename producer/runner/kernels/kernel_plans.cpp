#include "producer/runner/kernels/kernel_plans.hpp"

#include <algorithm>

#include "common/base/error.hpp"
#include "common/wire/output_forms.hpp"
#include "common/wire/slab_layout.hpp"

namespace offramp {

ClassMapPlan plan_class_map(const kernels::ClassScores& input) {
    expect(input.rows >= 0, "rows are counted");
    expect(input.classes >= 1 && input.classes <= kMostClassesOfMasks, "a class map has 1 to 256 classes");
    expect(input.upsample_factor >= 1 && input.height >= 1 && input.width >= 1 &&
               input.height <= kLongestEnlargedSide / input.upsample_factor &&
               input.width <= kLongestEnlargedSide / input.upsample_factor,
           "a class map has 1 to 2^20 rows and columns");
    return {.rows = input.rows,
            .classes = static_cast<std::int32_t>(input.classes),
            .height = static_cast<std::int32_t>(input.height),
            .width = static_cast<std::int32_t>(input.width),
            .upsample_factor = static_cast<std::int32_t>(input.upsample_factor),
            .scale = 1.0F / static_cast<float>(input.upsample_factor)};
}

ForegroundPlan plan_foreground(const kernels::ForegroundScores& input) {
    return {.map = plan_class_map({.scores = input.scores,
                                   .rows = input.rows,
                                   .classes = 1,
                                   .height = input.height,
                                   .width = input.width,
                                   .upsample_factor = input.upsample_factor}),
            .scale = input.scale};
}

namespace {

// Ignores strides of dimensions of one element: frameworks put any value there.
bool strides_are(const TensorSpec& spec, const std::array<std::int64_t, 4>& wanted) {
    for (std::size_t d = 0; d < 4; ++d)
        if (spec.shape[d] > 1 && spec.strides[d] != wanted[d]) return false;
    return true;
}

}  // namespace

NormalizePlan plan_normalize(const TensorSpec& spec, const kernels::PixelInput& input) {
    expect(input.rows >= 0 && input.height > 0 && input.width > 0, "pixels to normalize have a height and a width");
    expect(spec.dims == 4 && spec.shape[0] >= input.rows && spec.shape[1] == 3 && spec.shape[2] == input.height &&
               spec.shape[3] == input.width,
           "the normalized tensor is [rows, 3, height, width] of the pixels");
    expect(spec.dtype == kFloat32 || spec.dtype == kBFloat16, "the normalized tensor is float32 or bfloat16");

    NormalizePlan plan;
    const std::int64_t height = input.height;
    const std::int64_t width = input.width;
    if (strides_are(spec, {3 * height * width, height * width, width, 1})) {
        plan.order = NormalizePlan::Order::Planar;
    } else {
        expect(strides_are(spec, {3 * height * width, 1, 3 * width, 3}),
               "the normalized tensor is contiguous or channels-last");
        plan.order = NormalizePlan::Order::ChannelsLast;
    }
    plan.output = spec.dtype == kFloat32 ? NormalizePlan::Output::Float32 : NormalizePlan::Output::BFloat16;
    plan.rows = input.rows;
    plan.pixels_per_row = height * width;
    std::copy_n(input.mean, 3, plan.mean);
    std::copy_n(input.std, 3, plan.std);
    return plan;
}

namespace {

constexpr std::size_t kAlignment = 256;

// The rows of the upright picture that its part needs, and the length of the filters' lines.
ResizePlan::Picture measured(const kernels::PictureToResize& picture) {
    const PictureFilter across(picture.interpolation, picture.width, picture.whole_width);
    const PictureFilter down(picture.interpolation, picture.height, picture.whole_height);
    ResizePlan::Picture planned{.of = picture};
    planned.first_row = down.first_of(picture.top);
    planned.row_count = down.end_of(picture.top + picture.part_height - 1) - planned.first_row;
    planned.column_stride = ResizePlan::kBeforeWeights + across.most_taps();
    planned.row_stride = ResizePlan::kBeforeWeights + down.most_taps();
    return planned;
}

std::size_t columns_bytes(const ResizePlan::Picture& picture) {
    return round_up(std::size_t{picture.of.part_width} * picture.column_stride * sizeof(std::int32_t), kAlignment);
}

std::size_t rows_bytes(const ResizePlan::Picture& picture) {
    return round_up(std::size_t{picture.of.part_height} * picture.row_stride * sizeof(std::int32_t), kAlignment);
}

}  // namespace

std::size_t kernels::resize_scratch_bytes(const PictureToResize& picture) {
    const ResizePlan::Picture planned = measured(picture);
    return columns_bytes(planned) + rows_bytes(planned) +
           round_up(std::size_t{planned.row_count} * picture.part_width * 3, kAlignment);
}

ResizePlan plan_resize(std::span<const kernels::PictureToResize> pictures) {
    expect(pictures.size() <= kernels::kMostPicturesToResize, "at most 32 pictures are resized at once");
    ResizePlan plan;
    for (const kernels::PictureToResize& picture : pictures) {
        expect(picture.width > 0 && picture.height > 0 && picture.part_width > 0 && picture.part_height > 0 &&
                   picture.left + picture.part_width <= picture.whole_width &&
                   picture.top + picture.part_height <= picture.whole_height,
               "a part of a resized picture is inside it");
        ResizePlan::Picture planned = measured(picture);
        planned.columns = reinterpret_cast<std::int32_t*>(picture.scratch);
        planned.rows = reinterpret_cast<std::int32_t*>(picture.scratch + columns_bytes(planned));
        planned.between =
            reinterpret_cast<std::uint8_t*>(picture.scratch + columns_bytes(planned) + rows_bytes(planned));
        plan.pictures[plan.count++] = planned;
    }
    return plan;
}

}  // namespace offramp
