#pragma once

#include <cstdint>

namespace offramp {

// The bits of the bfloat16 nearest to a float32, ties to even, as PyTorch rounds on the CPU: every NaN
// becomes 0x7fc0. From bits to bits, and used by the CPU and by the device, whose own conversion makes
// another NaN of it.
constexpr std::uint16_t bfloat16_bits(std::uint32_t float_bits) {
    if ((float_bits & 0x7fffffffU) > 0x7f800000U) return 0x7fc0U;
    const std::uint32_t rounding = 0x7fffU + ((float_bits >> 16) & 1U);
    return static_cast<std::uint16_t>((float_bits + rounding) >> 16);
}

}  // namespace offramp
