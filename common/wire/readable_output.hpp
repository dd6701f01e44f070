#pragma once

#include <cstdint>
#include <string>

#include "common/wire/tensor_spec.hpp"

namespace offramp {

inline constexpr std::int64_t kMostPixelsOfAPicture = 100'000'000;

// Why an output is not pictures: [N, 1, 3 or 4, H, W] of uint8, float32, float16 or bfloat16; empty when it is.
std::string obstacle_to_pictures(const TensorSpec& spec);

// Whether an output is vectors: float32, float16 or bfloat16 [N, D].
bool is_vectors(const TensorSpec& spec);

}  // namespace offramp
