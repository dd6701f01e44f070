#pragma once

#include <string>

namespace offramp {

// Which model, with which weights.
struct ModelChoice {
    std::string name;     // of the models' table, or "copy"
    std::string weights;  // .safetensors; empty: random ones

    bool operator==(const ModelChoice&) const = default;
};

// What --model and --weights mean. `model` is a name, or the path of a .safetensors file: then that holds the weights, and says in its
// notes ("architecture") which model they are of, or shows it by the names of its tensors. A name without weights gets those that the
// model is shipped with, `shipped`/NAME.safetensors, if there are any. Blocks: on the disk. Errors: ConfigError: a file
// that does not exist (NoInput), is no .safetensors file or of an unknown model (BadInput), or comes with other weights (Usage).
ModelChoice choose_model(const std::string& model, const std::string& weights, const std::string& shipped);

// Where the weights lie that models are shipped with: share/ beside the folder of this program.
std::string shipped_weights_folder();

}  // namespace offramp
