#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace offramp {

// True if no number is infinite or NaN. The numbers are little-endian float32, or float16 if `bytes_each` is 2.
inline bool all_finite(std::span<const std::byte> numbers, std::size_t bytes_each) {
    bool finite = true;
    for (std::size_t at = 0; at + bytes_each <= numbers.size(); at += bytes_each) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, numbers.data() + at, bytes_each);
        const std::uint32_t exponent = bytes_each == 2 ? 0x7c00U : 0x7f800000U;
        finite = finite && (bits & exponent) != exponent;
    }
    return finite;
}

}  // namespace offramp
