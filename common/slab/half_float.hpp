#pragma once

#include <bit>
#include <cstdint>

namespace offramp {

inline float from_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16U); }

inline float from_float16(std::uint16_t bits) {
    const std::uint32_t sign = (bits & 0x8000U) << 16U;
    const std::uint32_t magnitude = bits & 0x7fffU;
    // Below the smallest normal number the mantissa counts units of 2^-24.
    if (magnitude < 0x0400U) {
        const float value = static_cast<float>(magnitude) * 0x1p-24F;
        return sign != 0 ? -value : value;
    }
    const std::uint32_t exponent = magnitude >= 0x7c00U ? 0x70000000U : 0x38000000U;  // infinity and NaN stay so
    return std::bit_cast<float>(sign | ((magnitude << 13U) + exponent));
}

}  // namespace offramp
