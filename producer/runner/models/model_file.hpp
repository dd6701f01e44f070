#pragma once

#include <string>
#include <string_view>

#include "common/base/error.hpp"

namespace offramp {

// A model and its weights.
struct ModelChoice {
    std::string name;     // of the models' table, "copy", or the path of a file that holds a whole model
    std::string weights;  // .safetensors; empty: none

    bool operator==(const ModelChoice&) const = default;
};

// True if `model` is the path of a file that holds a whole model (.pt2, .pt), including weights.
bool is_model_file(std::string_view model);

// Resolves --model and --weights. `model` is a name, or the path of a file that holds a whole model, or of a
// .safetensors file with weights. The latter states their model in its metadata ("architecture"), or shows it by the
// names of its tensors. A name without weights gets the shipped ones, `shipped`/NAME.safetensors, if they exist.
// Blocks: on the disk. Errors: ConfigError: a file that does not exist (NoInput), is not a .safetensors file or of an
// unknown model (BadInput), or comes with other weights (Usage).
ModelChoice choose_model(const std::string& model, const std::string& weights, const std::string& shipped);

// The error for a model without weights, unless random ones were requested.
ConfigError no_weights(const std::string& model);

}  // namespace offramp
