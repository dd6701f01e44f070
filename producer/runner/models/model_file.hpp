#pragma once

#include <string>
#include <string_view>

#include "common/base/error.hpp"

namespace offramp {

// Which model, with which weights.
struct ModelChoice {
    std::string name;     // of the models' table, "copy", or the path of a file that holds a whole model
    std::string weights;  // .safetensors; empty: none

    bool operator==(const ModelChoice&) const = default;
};

// Whether `model` is the path of a file that holds a whole model (.pt2, .pt), weights and all.
bool is_model_file(std::string_view model);

// What --model and --weights mean. `model` is a name, the path of a file that holds a whole model, or of a .safetensors
// file: then that holds the weights, and says in its metadata ("architecture") which model they are of, or shows it by
// the names of its tensors. A name without weights gets those that the model is shipped with,
// `shipped`/NAME.safetensors, if there are any. Blocks: on the disk. Errors: ConfigError: a file that does not exist
// (NoInput), is not a .safetensors file or of an unknown model (BadInput), or comes with other weights (Usage).
ModelChoice choose_model(const std::string& model, const std::string& weights, const std::string& shipped);

// What is said of a model that has no weights, when nobody asked for random ones.
ConfigError no_weights(const std::string& model);

}  // namespace offramp
