#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/numerics/float16_bits.hpp"
#include "common/wire/tensor_spec.hpp"

namespace offramp {

// One number of a tensor of float32, float16 or bfloat16, as a float32: that at `index` of those that begin at
// `numbers`, wherever they lie. Thread: any.
inline float number_at(const std::byte* numbers, DType dtype, std::size_t index = 0) {
    if (dtype == kFloat32) {
        float number = 0;
        std::memcpy(&number, numbers + index * sizeof number, sizeof number);
        return number;
    }
    std::uint16_t bits = 0;
    std::memcpy(&bits, numbers + index * sizeof bits, sizeof bits);
    return dtype == kFloat16 ? float_of_float16(bits) : float_of_bfloat16(bits);
}

}  // namespace offramp
