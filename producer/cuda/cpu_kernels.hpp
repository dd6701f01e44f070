#pragma once

#include <cstddef>
#include <cstdint>

#include "producer/cuda/normalize_plan.hpp"
#include "producer/cuda/strided_copy.hpp"

namespace offramp {

// The CPU's side of Stream's three operations, bit for bit what kernels.hpp does on the device. Blocks: until
// done.
void normalize_on_cpu(void* to, const std::uint8_t* pixels, const NormalizePlan& plan);
void convert_to_bfloat16_on_cpu(void* to, const void* from, std::size_t elements);
void pack_on_cpu(void* to, const void* from, const StridedCopy& copy);

}  // namespace offramp
