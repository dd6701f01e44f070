#pragma once

#include <string>

namespace offramp {

// What a user does with a file of weights as torch.save writes it: a command that makes a .safetensors of it, which a
// built-in model takes. `file`: its path, as the user gave it.
std::string command_to_convert(const std::string& file);

}  // namespace offramp
