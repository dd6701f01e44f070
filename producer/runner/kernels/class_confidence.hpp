#pragma once

#include <bit>
#include <cstdint>

#include "common/numerics/foreground_score.hpp"

namespace offramp {

// e^x for x <= 0, not NaN, with the same bits on CPU and device, whose own functions differ. Within 2e-7 of the true
// value; 0 below -87. Every product is fused or rounded deliberately.
constexpr float exp_of_nonpositive(float x) {
    if (x < -87.0F) return 0.0F;
    constexpr float kRounder = 12582912.0F;  // adding 1.5 * 2^23 leaves a whole number
    const float twos = __builtin_fmaf(x, 1.44269504F, kRounder) - kRounder;
    // ln 2 in two parts, of which the first times `twos` is exact.
    const float rest = __builtin_fmaf(twos, 2.12194440e-4F, __builtin_fmaf(twos, -0.693359375F, x));
    float series = 1.9875691500e-4F;
    series = __builtin_fmaf(series, rest, 1.3981999507e-3F);
    series = __builtin_fmaf(series, rest, 8.3334519073e-3F);
    series = __builtin_fmaf(series, rest, 4.1665795894e-2F);
    series = __builtin_fmaf(series, rest, 1.6666665459e-1F);
    series = __builtin_fmaf(series, rest, 5.0000001201e-1F);
    const float power = __builtin_fmaf(series, rest * rest, rest) + 1.0F;
    return power * std::bit_cast<float>(static_cast<std::uint32_t>(static_cast<std::int32_t>(twos) + 127) << 23);
}

// The winning class's softmax probability in 8 bits: 255 / `sum`, rounded, where `sum` adds up exp(score - largest
// score) over all classes. 0 if it is undefined (a score is NaN or infinite).
constexpr std::uint8_t confidence_of(float sum) {
    return sum >= 1.0F ? static_cast<std::uint8_t>(255.0F / sum + 0.5F) : std::uint8_t{0};
}

// The 8-bit probability that a pixel is foreground, or that it is not, from a network's single channel; 0 for a NaN.
constexpr std::uint8_t foreground_confidence(float score, bool foreground, const ForegroundScale& scale) {
    if (score != score) return 0;
    float probability = 0;
    if (scale.logit) {
        const float towards = foreground ? score : -score;
        const float small = exp_of_nonpositive(towards < 0 ? towards : -towards);
        probability = (towards < 0 ? small : 1.0F) / (1.0F + small);
    } else {
        const float inside = score < 0 ? 0.0F : score > 1 ? 1.0F : score;
        probability = foreground ? inside : 1.0F - inside;
    }
    return static_cast<std::uint8_t>(__builtin_fmaf(probability, 255.0F, 0.5F));
}

}  // namespace offramp
