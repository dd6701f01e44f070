#include "producer/runner/models/convolution.hpp"

#include <ATen/Context.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/sqrt.h>
#include <ATen/TensorOperators.h>

#include <array>

#ifdef OFFRAMP_TORCH_HAS_CUDA
#include <ATen/ops/cudnn_convolution_add_relu.h>
#include <ATen/ops/cudnn_convolution_relu.h>
#endif

namespace offramp {
namespace {

constexpr double kBatchNormEpsilon = 1e-5;

[[maybe_unused]] bool fuses(const Execution& execution) {
    return execution.on_cuda() && !execution.options().deterministic;
}

#ifdef OFFRAMP_TORCH_HAS_CUDA
using Sides = std::array<std::int64_t, 2>;

Sides both(std::int64_t value) { return {value, value}; }
#endif

// How cuDNN chooses a kernel, for one call. LibTorch has this switch for the whole process only, and reads it for
// shapes that it has not met before.
class ChoiceOfKernels {
  public:
    explicit ChoiceOfKernels(const Convolution& c) : before_(at::globalContext().benchmarkCuDNN()) {
        at::globalContext().setBenchmarkCuDNN(before_ && c.kernels_timed);
    }
    ~ChoiceOfKernels() { at::globalContext().setBenchmarkCuDNN(before_); }
    ChoiceOfKernels(const ChoiceOfKernels&) = delete;
    ChoiceOfKernels& operator=(const ChoiceOfKernels&) = delete;
    ChoiceOfKernels(ChoiceOfKernels&&) = delete;
    ChoiceOfKernels& operator=(ChoiceOfKernels&&) = delete;

  private:
    bool before_;
};

}  // namespace

void append_demands(const ConvolutionPlan& plan, std::vector<TensorDemand>& demands) {
    const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape, Initializer initializer,
                         bool parameter = true) {
        demands.push_back({.name = name, .shape = shape, .initializer = initializer, .parameter = parameter});
    };
    add(plan.name + ".weight", {plan.out, plan.in, plan.kernel, plan.kernel},
        kaiming(plan.in * plan.kernel * plan.kernel));
    if (plan.norm.empty()) {
        add(plan.name + ".bias", {plan.out}, {.bound = 0.1F});
        return;
    }
    add(plan.norm + ".weight", {plan.out}, {.centre = plan.gain});
    add(plan.norm + ".bias", {plan.out}, {.bound = 0.1F});
    add(plan.norm + ".running_mean", {plan.out}, {}, false);
    add(plan.norm + ".running_var", {plan.out}, {.centre = 1.0F}, false);
}

Convolution fold(const ConvolutionPlan& plan, const Weights& weights) {
    const auto wide = [&weights](const std::string& name) { return weights.find(name)->second.to(at::kDouble); };
    Convolution folded{.weight = wide(plan.name + ".weight"),
                       .bias = {},
                       .stride = plan.stride,
                       .padding = plan.padding,
                       .dilation = plan.dilation,
                       .kernels_timed = plan.kernels_timed};
    if (plan.norm.empty()) {
        folded.bias = wide(plan.name + ".bias");
        return folded;
    }
    const at::Tensor scale =
        wide(plan.norm + ".weight") / at::sqrt(wide(plan.norm + ".running_var") + kBatchNormEpsilon);
    folded.weight = folded.weight * scale.view({-1, 1, 1, 1});
    folded.bias = wide(plan.norm + ".bias") - wide(plan.norm + ".running_mean") * scale;
    return folded;
}

void move_bias(Convolution& from, Convolution& to) {
    to.bias = to.bias + from.bias;
    from.bias.reset();
}

void place(Convolution& c, const Execution& execution) {
    c.weight = c.weight.to(execution.compute_type()).to(execution.device()).contiguous(execution.memory_format());
    if (c.bias.defined()) c.bias = c.bias.to(execution.compute_type()).to(execution.device());
}

at::Tensor convolve(const at::Tensor& x, const Convolution& c) {
    const ChoiceOfKernels choice(c);
    return at::conv2d(x, c.weight, c.bias, c.stride, c.padding, c.dilation);
}

at::Tensor convolve_relu(const at::Tensor& x, const Convolution& c, const Execution& execution) {
#ifdef OFFRAMP_TORCH_HAS_CUDA
    if (fuses(execution)) {
        const ChoiceOfKernels choice(c);
        return at::cudnn_convolution_relu(x, c.weight, c.bias, both(c.stride), both(c.padding), both(c.dilation), 1);
    }
#endif
    return convolve(x, c).relu_();
}

at::Tensor convolve_add_relu(const at::Tensor& x, const Convolution& c, const at::Tensor& skip,
                             const Execution& execution) {
#ifdef OFFRAMP_TORCH_HAS_CUDA
    if (fuses(execution)) {
        const ChoiceOfKernels choice(c);
        return at::cudnn_convolution_add_relu(x, c.weight, skip, 1.0, c.bias, both(c.stride), both(c.padding),
                                              both(c.dilation), 1);
    }
#endif
    return convolve(x, c).add_(skip).relu_();
}

}  // namespace offramp
