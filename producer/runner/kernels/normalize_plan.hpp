#pragma once

#include <cstdint>

#include "producer/runner/kernels/kernels.hpp"

namespace offramp {

// Arguments of kernels::normalize, checked and reduced to a loop's needs. One formula for CPU and device, in this order
// and rounded after each step as torchvision does in float32: x = pixel / 255; x = x - mean; x = x / std; then to
// bfloat16 if requested.
struct NormalizePlan {
    enum class Order { Planar, ChannelsLast };
    enum class Output { Float32, BFloat16 };

    Order order = Order::Planar;
    Output output = Output::Float32;
    std::int64_t rows = 0;
    std::int64_t pixels_per_row = 0;
    float mean[3] = {};
    float std[3] = {};

    std::int64_t elements() const { return rows * pixels_per_row * 3; }
};

// Broken contract when `spec` violates kernels::normalize. A spec of more rows than the input has is filled in part.
NormalizePlan plan_normalize(const TensorSpec& spec, const kernels::PixelInput& input);

}  // namespace offramp
