#pragma once

#include <cstdint>
#include <span>

#include "common/wire/tensor_spec.hpp"

namespace offramp {

// The stride of a dimension of one element counts for nothing, and makers of tensors leave anything in it: a slice of a
// single channel keeps that of all channels. The same tensor, of dense rows, with strides there that follow from the
// others: row-major where these are.
TensorSpec with_settled_strides(TensorSpec tensor);

// True if a tensor of this shape with these strides has the layout of `tensor`.
bool has_strides(std::span<const std::int64_t> strides, const TensorSpec& tensor);

}  // namespace offramp
