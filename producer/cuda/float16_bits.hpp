#pragma once

#include <cstdint>

namespace offramp {

// The bits of the float16 nearest to a float32, ties to even; what is too large becomes infinity, every NaN 0x7e00. From bits to
// bits, as bfloat16_bits.
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

}  // namespace offramp
