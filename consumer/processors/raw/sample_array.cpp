#include "consumer/processors/raw/sample_array.hpp"

#include <cstring>

namespace offramp {
namespace {

// Copies the dimensions from `d` on; returns the position for the next element.
template <std::size_t kBytes>
std::byte* put(const TensorSpec& spec, std::size_t d, const std::byte* from, std::byte* to) {
    const std::size_t step = static_cast<std::size_t>(spec.strides[d]) * kBytes;
    for (std::int64_t i = 0; i < spec.shape[d]; ++i, from += step) {
        if (d + 1 < spec.dims) {
            to = put<kBytes>(spec, d + 1, from, to);
        } else {
            std::memcpy(to, from, kBytes);
            to += kBytes;
        }
    }
    return to;
}

void put_elements(const TensorSpec& spec, const std::byte* from, std::byte* to) {
    switch (spec.dtype.bytes()) {
        case 1:
            put<1>(spec, 1, from, to);
            break;
        case 2:
            put<2>(spec, 1, from, to);
            break;
        case 4:
            put<4>(spec, 1, from, to);
            break;
        case 8:
            put<8>(spec, 1, from, to);
            break;
        default:
            put<16>(spec, 1, from, to);
            break;
    }
}

}  // namespace

bool is_row_major(const TensorSpec& spec) {
    std::int64_t expected = 1;
    for (std::size_t d = spec.dims; d-- > 1;) {
        if (spec.shape[d] != 1 && spec.strides[d] != expected) return false;
        expected *= spec.shape[d];
    }
    return true;
}

std::span<const std::byte> SampleArray::of(const TensorView& tensor, std::size_t row) {
    const auto bytes = tensor.row(row);
    if (bytes.empty() || tensor.spec.varies() || is_row_major(tensor.spec)) return bytes;
    ordered_.resize(bytes.size());
    put_elements(tensor.spec, bytes.data(), ordered_.data());
    return ordered_;
}

std::span<const std::int64_t> sample_shape(const TensorSpec& spec) {
    return std::span(spec.shape).first(spec.dims).subspan(1);
}

}  // namespace offramp
