#pragma once

#include <cstddef>
#include <cstdint>

#include "common/slab/tensor_spec.hpp"

namespace offramp {

// A tensor's layout brought to its simplest form for copying it out densely: no dimension of one element,
// none that continues its neighbour, and elements as wide as alignment allows (two floats next to each other
// are moved as 8 bytes).
struct StridedCopy {
    std::size_t element_bytes = 0;  // 1, 2, 4, 8 or 16
    std::size_t dims = 0;           // 1 to 8 when there is anything to copy
    std::uint64_t elements = 0;
    std::int64_t shape[kMaxDims] = {};
    std::int64_t strides[kMaxDims] = {};  // of the source, in elements
};

// `to` and `from` are looked at for their alignment only. Broken contract: negative strides, elements of
// another size than above, a source that is not aligned to its elements.
StridedCopy plan_strided_copy(const void* to, const void* from, const TensorSpec& from_spec);

}  // namespace offramp
