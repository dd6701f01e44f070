#include "producer/runner/kernels/class_map_plan.hpp"

#include "common/base/error.hpp"

namespace offramp {

ClassMapPlan plan_class_map(const kernels::ClassScores& input) {
    constexpr std::int64_t kLongestSide = std::int64_t{1} << 20;  // as far as bilinear_taps is exact
    expect(input.rows >= 0, "rows are counted");
    expect(input.classes >= 1 && input.classes <= 256, "a class map has 1 to 256 classes");
    expect(input.upsample_factor >= 1 && input.height >= 1 && input.width >= 1 &&
               input.height <= kLongestSide / input.upsample_factor &&
               input.width <= kLongestSide / input.upsample_factor,
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

}  // namespace offramp
