#pragma once

#include <string>

#include "common/wire/tensor_spec.hpp"

namespace offramp {

// "output logits float32 [64, 21, 512, 512]"; one that is called "output", as an export's only one is, is not called so
// twice.
inline std::string describe_output(const TensorSpec& spec) {
    return spec.name == "output" ? spec.describe() : "output " + spec.describe();
}

}  // namespace offramp
