#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/wire/tensor_spec.hpp"

namespace offramp {

// A tensor of 1 to 4 dimensions whose samples are dense, their dimensions in a random order in memory.
inline TensorSpec any_dense_tensor(const std::string& name, std::int64_t rows) {
    const DType dtype =
        *rc::gen::element(kInt64, kInt32, kUInt8, kFloat32, kFloat16, kBFloat16, DType{5, 128, 1}, kBool);
    TensorSpec spec{.name = name, .dtype = dtype, .dims = *rc::gen::inRange<std::size_t>(1, 5)};
    spec.shape[0] = rows;
    std::vector<std::size_t> order;
    for (std::size_t d = 1; d < spec.dims; ++d) {
        spec.shape[d] = *rc::gen::inRange<std::int64_t>(1, 6);
        order.insert(order.begin() + *rc::gen::inRange<std::ptrdiff_t>(0, std::ssize(order) + 1), d);
    }
    std::int64_t stride = 1;
    for (const std::size_t d : order) {
        spec.strides[d] = stride;
        stride *= spec.shape[d];
    }
    spec.strides[0] = stride;
    return spec;
}

}  // namespace offramp
