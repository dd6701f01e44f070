#pragma once

#include <cstdint>

#include "producer/runner/kernels/kernels.hpp"

namespace offramp {

// What kernels::normalize is asked for, checked and reduced to what a loop needs. One formula for CPU and
// device, in this order and rounded after each step as torchvision does in float32: x = pixel / 255; x = x -
// mean; x = x / std; then to bfloat16 if asked.
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

// Broken contract when `spec` is not what kernels::normalize says. A spec of more rows than there is input is
// filled in part.
NormalizePlan plan_normalize(const TensorSpec& spec, const kernels::PixelInput& input);

}  // namespace offramp
