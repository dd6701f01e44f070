#pragma once

#include <string>

#include "common/safetensors/safetensors_file.hpp"

namespace offramp {

// A file of a model's weights. Errors: those of SafetensorsFile, with what its user can do about it: as torch.save
// writes it, it is a command that converts it.
SafetensorsFile open_weights(const std::string& path);

}  // namespace offramp
