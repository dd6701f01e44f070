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

// True if the elements of one sample are in row-major order.
bool is_row_major(const TensorSpec& spec);

// Returns the elements of one sample in row-major order, the only order that file formats know, whatever the order in
// the slab. Owns its scratch memory. Thread: one.
class SampleArray {
  public:
    // The bytes of one sample: the slab's own if they are in this order, else a copy that is valid until the next call.
    std::span<const std::byte> of(const TensorView& tensor, std::size_t row);

  private:
    std::vector<std::byte> ordered_;
};

// The shape of one sample: the tensor's without its first dimension.
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
