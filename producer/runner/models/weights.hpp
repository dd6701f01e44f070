#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "producer/runner/models/model.hpp"

namespace offramp {

// Fills a tensor when there is no file: uniform in [-bound, bound] around `centre`.
struct Initializer {
    float centre = 0.0F;
    float bound = 0.0F;
};

// Keeps the variance through `fan_in` inputs and a ReLU (He et al. 2015, uniform form).
Initializer kaiming(std::int64_t fan_in);

// A tensor that a model needs.
struct TensorDemand {
    std::string name;
    std::vector<std::int64_t> shape;
    Initializer initializer;
    bool parameter = true;  // counts as a parameter; false: a statistic, which does not
};

// A model's named tensors: float32, on the CPU, row-major.
using Weights = std::map<std::string, at::Tensor, std::less<>>;

std::uint64_t count_parameters(std::span<const TensorDemand> demands);

// Reads options.weights, or fills every tensor from options.seed and its name: the same bits on every machine,
// independent of the model's other tensors. Half-precision and double tensors of a file are converted. `is_ignored`
// accepts other names in a file. Errors: ConfigError (BadInput): all tensors that are missing, unexpected or of another
// shape or type, the first few by name.
Weights load_weights(const ModelOptions& options, std::span<const TensorDemand> demands,
                     const std::function<bool(std::string_view)>& is_ignored);

// "random weights (seed 0)" or "weights from PATH"
std::string describe_weights(const ModelOptions& options);

}  // namespace offramp
