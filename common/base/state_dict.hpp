#pragma once

#include <string>

namespace offramp {

// The fix for a file of weights by torch.save: a command that makes a .safetensors of it, which a built-in model takes.
// `file`: its path, as the user gave it.
std::string command_to_convert(const std::string& file);

}  // namespace offramp
