#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "common/numerics/float16_bits.hpp"
#include "common/wire/slab_view.hpp"
#include "common/wire/tensor_spec.hpp"

namespace offramp {

// Whether the elements of one sample lie in row-major order.
bool is_row_major(const TensorSpec& spec);

// Gives the elements of one sample in row-major order, whatever the order of its dimensions in the slab: file formats
// know no other. Owns its scratch memory. Thread: one.
class SampleArray {
  public:
    // The bytes of one sample: the slab's own where they lie so, else assembled; valid until the next call.
    std::span<const std::byte> of(const TensorView& tensor, std::size_t row);

  private:
    std::vector<std::byte> ordered_;
};

// The shape of one sample: that of the tensor without its first dimension.
std::span<const std::int64_t> sample_shape(const TensorSpec& spec);

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
