#include "common/wire/tensor_spec.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/base/error.hpp"

namespace offramp {

std::string to_string(DType dtype) {
    static constexpr std::string_view kKinds[] = {"int", "uint", "float", "", "bfloat", "complex", "bool"};
    if (dtype == kBool) return "bool";
    if (dtype.lanes == 1 && dtype.code < std::size(kKinds) && !kKinds[dtype.code].empty())
        return std::string(kKinds[dtype.code]) + std::to_string(dtype.bits);
    return "dtype(" + std::to_string(dtype.code) + "," + std::to_string(dtype.bits) + "," +
           std::to_string(dtype.lanes) + ")";
}

TensorSpec TensorSpec::contiguous(std::string name, DType dtype, std::span<const std::int64_t> shape) {
    expect(!shape.empty() && shape.size() <= kMaxDims, "a tensor has 1 to 8 dimensions");
    TensorSpec spec{.name = std::move(name), .dtype = dtype, .dims = shape.size()};
    std::copy(shape.begin(), shape.end(), spec.shape.begin());
    std::int64_t stride = 1;
    for (std::size_t d = spec.dims; d-- > 0;) {
        spec.strides[d] = stride;
        stride *= spec.shape[d];
    }
    return spec;
}

std::size_t TensorSpec::elements() const {
    std::size_t count = dims == 0 ? 0 : 1;
    for (std::size_t d = 0; d < dims; ++d) count *= static_cast<std::size_t>(shape[d]);
    return count;
}

std::size_t TensorSpec::row_bytes() const {
    std::size_t count = dims == 0 ? 0 : dtype.bytes();
    for (std::size_t d = 1; d < dims; ++d) count *= static_cast<std::size_t>(shape[d]);
    return count;
}

bool TensorSpec::dense_rows() const {
    if (dims == 0) return false;
    std::vector<std::size_t> order(dims - 1);
    std::iota(order.begin(), order.end(), std::size_t{1});
    std::stable_sort(order.begin(), order.end(),
                     [this](std::size_t a, std::size_t b) { return strides[a] < strides[b]; });
    std::int64_t expected = 1;
    for (const std::size_t d : order) {
        if (shape[d] == 1) continue;
        if (strides[d] != expected) return false;
        expected *= shape[d];
    }
    return shape[0] == 1 || strides[0] == expected;
}

TensorSpec TensorSpec::with_rows(std::int64_t rows) const {
    TensorSpec changed = *this;
    changed.shape[0] = rows;
    return changed;
}

std::string TensorSpec::describe() const {
    std::string text = name + " " + to_string(dtype) + " [";
    for (std::size_t d = 0; d < dims; ++d) text += (d == 0 ? "" : ", ") + std::to_string(shape[d]);
    return text + "]";
}

}  // namespace offramp
