#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "producer/runner/models/model_metadata.hpp"

namespace offramp {

// What a model's file says of the inputs that its network takes.
struct NetworkInputs {
    std::vector<std::string> names;  // in their order; an empty one where the file knows none
    std::size_t needed = 0;          // those behind so many may be left out
};

// Whether the metadata says what goes into each. Errors: ConfigError: another number of inputs, or other names, with
// the tables [[input]] that would do, as far as anybody knows (Config); a network that takes none (BadInput).
void check_inputs(const NetworkInputs& inputs, const ModelMetadata& metadata, const std::string& model_file);

}  // namespace offramp
