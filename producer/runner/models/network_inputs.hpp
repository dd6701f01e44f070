#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "producer/runner/models/model_metadata.hpp"

namespace offramp {

// A model file's description of its network's inputs.
struct NetworkInputs {
    std::vector<std::string> names;  // in their order; empty if the file has none
    std::size_t needed = 0;          // inputs after these are optional
};

// Checks that the metadata describes each input. Errors: ConfigError: another number of inputs, or other names, with
// the tables [[input]] to write, as far as known (Config); a network without inputs (BadInput).
void check_inputs(const NetworkInputs& inputs, const ModelMetadata& metadata, const std::string& model_file);

}  // namespace offramp
