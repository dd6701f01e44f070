#pragma once

#include <cstdint>
#include <string>

#include "common/wire/tensor_spec.hpp"

namespace offramp {

// Samples that differ in shape have one of these forms only as encoded pictures.

// Whether an output classifies each pixel. Class ids, such as those of an argmax: uint8, bool, int32 or int64 [N, H, W]
// or [N, 1, H, W]. Class scores: float32, float16 or bfloat16 [N, C, H, W].
bool is_class_map(const TensorSpec& spec);
bool is_class_scores(const TensorSpec& spec);

inline constexpr std::int64_t kMostClassesOfMasks = 256;                     // an id is one byte
inline constexpr std::int64_t kLongestEnlargedSide = std::int64_t{1} << 20;  // bilinear_taps is exact up to it

// Why an output, whose scores are enlarged by `upsample_factor`, cannot give masks; empty if it can.
std::string obstacle_to_masks(const TensorSpec& spec, std::uint32_t upsample_factor);

// Larger pictures are rejected before decoding, too: a few kilobytes can claim gigabytes.
inline constexpr std::uint64_t kMaxImagePixels = 100'000'000;

// True if each sample is the bytes of a picture file: uint8 [N, ?].
bool is_encoded_pictures(const TensorSpec& spec);

// Why an output does not contain pictures, [N, 1, 3 or 4, H, W] of uint8, float32, float16 or bfloat16, or encoded
// ones; empty if it does.
std::string obstacle_to_pictures(const TensorSpec& spec);

// True if an output contains vectors: float32, float16 or bfloat16 [N, D].
bool is_vectors(const TensorSpec& spec);

}  // namespace offramp
