#pragma once

#include <string>

#include "common/safetensors/safetensors_file.hpp"

namespace offramp {

// A file of a model's weights. Errors: those of SafetensorsFile, with the fix: for a file written by torch.save, a
// command that converts it.
SafetensorsFile open_weights(const std::string& path);

}  // namespace offramp
