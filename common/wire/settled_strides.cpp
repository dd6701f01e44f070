#include "common/wire/settled_strides.hpp"

namespace offramp {

TensorSpec with_settled_strides(TensorSpec tensor) {
    std::int64_t row = 1;
    for (std::size_t d = tensor.dims; d-- > 1;) {
        if (tensor.shape[d] == 1)
            tensor.strides[d] = d + 1 == tensor.dims ? 1 : tensor.strides[d + 1] * tensor.shape[d + 1];
        row *= tensor.shape[d];
    }
    if (tensor.dims > 0) tensor.strides[0] = row;  // rows are dense
    return tensor;
}

bool has_strides(std::span<const std::int64_t> strides, const TensorSpec& tensor) {
    if (strides.size() != tensor.dims) return false;
    for (std::size_t d = 0; d < tensor.dims; ++d)
        if (tensor.shape[d] > 1 && strides[d] != tensor.strides[d]) return false;
    return true;
}

}  // namespace offramp
