#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/wire/slab_view.hpp"

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

}  // namespace offramp
