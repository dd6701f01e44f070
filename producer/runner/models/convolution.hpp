#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "producer/runner/models/execution.hpp"
#include "producer/runner/models/weights.hpp"

namespace offramp {

// One convolution of a network and the batch normalisation that follows it, by their names in the state dict.
struct ConvolutionPlan {
    std::string name;
    std::string norm;  // empty: none, the convolution has a bias of its own
    std::int64_t in = 0;
    std::int64_t out = 0;
    std::int64_t kernel = 1;
    std::int64_t stride = 1;
    std::int64_t padding = 0;
    std::int64_t dilation = 1;
    float gain = 1.0F;  // of random weights' normalisation
    bool kernels_timed = true;
};

// A convolution with its batch normalisation folded in. `bias` may be undefined. `kernels_timed`: cuDNN times its
// kernels for it in the first batch and keeps the fastest one; else it takes the one that its heuristics name, which
// costs no time. A network sets it to false where timing was measured to take long and to gain nothing.
struct Convolution {
    at::Tensor weight;
    at::Tensor bias;
    std::int64_t stride = 1;
    std::int64_t padding = 0;
    std::int64_t dilation = 1;
    bool kernels_timed = true;
};

using Convolutions = std::map<std::string, Convolution, std::less<>>;

// The tensors that a convolution and its normalisation have in a state dict.
void append_demands(const ConvolutionPlan& plan, std::vector<TensorDemand>& demands);

// In double, on the CPU: the same folded weights everywhere, and no error beside that of the precision
// chosen.
Convolution fold(const ConvolutionPlan& plan, const Weights& weights);

// For two convolutions whose results are added up: one bias, and one pass over the activations less.
void move_bias(Convolution& from, Convolution& to);

// Brings a folded convolution into the execution's precision, memory format and device.
void place(Convolution& convolution, const Execution& execution);

// The result of one convolution; its sum with `skip`; each with or without ReLU. On a GPU bias, skip and ReLU
// are computed inside cuDNN's convolution, which saves a pass over the activations for each, unless
// deterministic kernels are wanted: cuDNN's fused convolution has no way to insist on them.
at::Tensor convolve(const at::Tensor& x, const Convolution& convolution);
at::Tensor convolve_relu(const at::Tensor& x, const Convolution& convolution, const Execution& execution);
at::Tensor convolve_add_relu(const at::Tensor& x, const Convolution& convolution, const at::Tensor& skip,
                             const Execution& execution);

}  // namespace offramp
