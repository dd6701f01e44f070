#pragma once

#include <cstdint>

// The meaning of a slab's `upsample_factor`: PyTorch's upsample_bilinear2d(align_corners=False) by a whole factor, bit
// for bit like its compiled CUDA kernel. The device, the CPU backend and the consumers use it, so that all compute the
// same scores.
//
//   score(y, x) = blend(blend(p00, p01, column), blend(p10, p11, column), row)
namespace offramp {

// The two points of a line around an enlarged point, and their weights.
struct Taps {
    std::int32_t first = 0, second = 0;
    float first_weight = 1, second_weight = 0;
};

// The taps of point `output` of an enlarged line of `inputs` points. `scale`: 1 / upsample_factor. Valid up to 2^20
// outputs.
constexpr Taps bilinear_taps(std::int32_t output, std::int32_t inputs, float scale) {
    const float place = __builtin_fmaf(scale, static_cast<float>(output) + 0.5F, -0.5F);
    const float inside = place < 0 ? 0.0F : place;
    const auto first = static_cast<std::int32_t>(inside);
    const float beyond = inside - static_cast<float>(first);
    return {first, first < inputs - 1 ? first + 1 : first, 1.0F - beyond, beyond};
}

// Uses a fused multiply-add, like nvcc for `w0 * a + w1 * b`, and like PyTorch's CPU kernels with AVX2. Without AVX2,
// those may differ in the last place.
constexpr float blend(float first, float second, const Taps& taps) {
    return __builtin_fmaf(first, taps.first_weight, second * taps.second_weight);
}

}  // namespace offramp
