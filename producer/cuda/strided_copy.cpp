#include "producer/cuda/strided_copy.hpp"

#include <bit>

#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr std::size_t kWidestElement = 16;

void add_dimension(StridedCopy& copy, std::int64_t shape, std::int64_t stride) {
    if (shape == 1) return;
    if (copy.dims > 0 && copy.strides[copy.dims - 1] == stride * shape) {
        copy.shape[copy.dims - 1] *= shape;
        copy.strides[copy.dims - 1] = stride;
        return;
    }
    copy.shape[copy.dims] = shape;
    copy.strides[copy.dims] = stride;
    ++copy.dims;
}

bool can_widen(const StridedCopy& copy, std::uintptr_t addresses) {
    const std::size_t last = copy.dims - 1;
    if (copy.element_bytes >= kWidestElement || addresses % (2 * copy.element_bytes) != 0) return false;
    if (copy.strides[last] != 1 || copy.shape[last] % 2 != 0) return false;
    for (std::size_t d = 0; d < last; ++d)
        if (copy.strides[d] % 2 != 0) return false;
    return true;
}

void widen(StridedCopy& copy) {
    copy.element_bytes *= 2;
    copy.elements /= 2;
    copy.shape[copy.dims - 1] /= 2;
    for (std::size_t d = 0; d + 1 < copy.dims; ++d) copy.strides[d] /= 2;
}

}  // namespace

StridedCopy plan_strided_copy(const void* to, const void* from, const TensorSpec& from_spec) {
    expect(from_spec.dims <= kMaxDims, "a tensor has at most 8 dimensions");
    StridedCopy copy;
    copy.element_bytes = from_spec.dtype.bytes();
    expect(std::has_single_bit(copy.element_bytes) && copy.element_bytes <= kWidestElement,
           "elements to pack have 1, 2, 4, 8 or 16 bytes");
    copy.elements = from_spec.elements();
    if (copy.elements == 0) return copy;

    for (std::size_t d = 0; d < from_spec.dims; ++d) {
        expect(from_spec.strides[d] >= 0 || from_spec.shape[d] == 1,
               "a tensor to pack has no negative strides");
        add_dimension(copy, from_spec.shape[d], from_spec.strides[d]);
    }
    if (copy.dims == 0) {
        copy.dims = 1;
        copy.shape[0] = 1;
        copy.strides[0] = 1;
    }
    const std::uintptr_t addresses = std::bit_cast<std::uintptr_t>(to) | std::bit_cast<std::uintptr_t>(from);
    expect(addresses % copy.element_bytes == 0, "tensors to pack are aligned to their elements");
    while (can_widen(copy, addresses)) widen(copy);
    return copy;
}

}  // namespace offramp
