#pragma once

#include <bit>
#include <cstdint>

namespace offramp {

// The bits of the float16 nearest to a float32, ties to even. Too large values become infinity, and every NaN becomes
// 0x7e00. Converts bits to bits, like bfloat16_bits().
constexpr std::uint16_t float16_bits(std::uint32_t float_bits) {
    const auto sign = static_cast<std::uint16_t>((float_bits >> 16) & 0x8000U);
    const std::uint32_t magnitude = float_bits & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return 0x7e00U;
    if (magnitude >= 0x47800000U) return sign | 0x7c00U;  // from 65536
    if (magnitude < 0x33000000U) return sign;             // below half of the smallest number
    if (magnitude < 0x38800000U) {                        // subnormal: units of 2^-24
        const std::uint32_t mantissa = (magnitude & 0x7fffffU) | 0x800000U;
        const std::uint32_t shift = 126U - (magnitude >> 23);
        const std::uint32_t units = mantissa >> shift;
        const std::uint32_t rest = mantissa & ((1U << shift) - 1U);
        const std::uint32_t half = 1U << (shift - 1U);
        const bool up = rest > half || (rest == half && units % 2 == 1);
        return static_cast<std::uint16_t>(sign | (units + (up ? 1U : 0U)));
    }
    const std::uint32_t rounding = 0xfffU + ((magnitude >> 13) & 1U);
    return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U + rounding) >> 13));
}

// The value of 16 bits. Preserves infinities and NaNs.
constexpr float float_of_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16U); }

constexpr float float_of_float16(std::uint16_t bits) {
    const std::uint32_t sign = (bits & 0x8000U) << 16U;
    const std::uint32_t magnitude = bits & 0x7fffU;
    // Below the smallest normal number the mantissa counts units of 2^-24.
    if (magnitude < 0x0400U) {
        const float value = static_cast<float>(magnitude) * 0x1p-24F;
        return sign != 0 ? -value : value;
    }
    const std::uint32_t exponent = magnitude >= 0x7c00U ? 0x70000000U : 0x38000000U;
    return std::bit_cast<float>(sign | ((magnitude << 13U) + exponent));
}

// The bits of the bfloat16 nearest to a float32, ties to even, like PyTorch on the CPU: every NaN becomes 0x7fc0.
// Converts bits to bits. CPU and device both use it, because the device's own conversion gives another NaN.
constexpr std::uint16_t bfloat16_bits(std::uint32_t float_bits) {
    if ((float_bits & 0x7fffffffU) > 0x7f800000U) return 0x7fc0U;
    const std::uint32_t rounding = 0x7fffU + ((float_bits >> 16) & 1U);
    return static_cast<std::uint16_t>((float_bits + rounding) >> 16);
}

}  // namespace offramp
