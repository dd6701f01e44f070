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

// One convolution of a network and its batch normalisation, by their names in the state dict.
struct ConvolutionPlan {
    std::string name;
    std::string norm;  // empty: no normalisation; the convolution has its own bias
    std::int64_t in = 0;
    std::int64_t out = 0;
    std::int64_t kernel = 1;
    std::int64_t stride = 1;
    std::int64_t padding = 0;
    std::int64_t dilation = 1;
    float gain = 1.0F;  // of the normalisation, for random weights
    bool kernels_timed = true;
};

// A convolution with its batch normalisation folded in. `bias` may be undefined. `kernels_timed`: in the first batch,
// cuDNN times its kernels for this convolution and keeps the fastest. Otherwise cuDNN's heuristics choose the kernel,
// which costs no time. A network sets it to false if timing takes long and measurements showed no gain.
struct Convolution {
    at::Tensor weight;
    at::Tensor bias;
    std::int64_t stride = 1;
    std::int64_t padding = 0;
    std::int64_t dilation = 1;
    bool kernels_timed = true;
};

using Convolutions = std::map<std::string, Convolution, std::less<>>;

// The tensors of a convolution and its normalisation in a state dict.
void append_demands(const ConvolutionPlan& plan, std::vector<TensorDemand>& demands);

// Computes in double on the CPU: the folded weights are the same everywhere, and only the chosen precision causes an
// error.
Convolution fold(const ConvolutionPlan& plan, const Weights& weights);

// For two convolutions whose results are added: merges their biases, which saves a pass over the activations.
void move_bias(Convolution& from, Convolution& to);

// Converts a folded convolution to the execution's precision, memory format and device.
void place(Convolution& convolution, const Execution& execution);

// The result of one convolution; its sum with `skip`; each with or without ReLU. On a GPU, cuDNN's convolution also
// computes bias, skip and ReLU, which saves a pass over the activations for each. With deterministic kernels they are
// separate: cuDNN's fused convolution cannot guarantee determinism.
at::Tensor convolve(const at::Tensor& x, const Convolution& convolution);
at::Tensor convolve_relu(const at::Tensor& x, const Convolution& convolution, const Execution& execution);
at::Tensor convolve_add_relu(const at::Tensor& x, const Convolution& convolution, const at::Tensor& skip,
                             const Execution& execution);

}  // namespace offramp
