#pragma once

#include <string>

namespace offramp {

// Where files lie that the programs need beside themselves (weights that a model is shipped with, the tokenizer's
// server): share/ beside the folder of this program. Errors: SystemError without /proc.
std::string data_folder();

}  // namespace offramp
