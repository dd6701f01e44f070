#pragma once

#include <cstddef>
#include <cstdint>

#include "common/wire/tensor_spec.hpp"
#include "producer/runner/kernels/class_map_plan.hpp"
#include "producer/runner/kernels/normalize_plan.hpp"

namespace offramp {

// The GPU's side of kernels.hpp, bit for bit what cpu_kernels.hpp does on the CPU; without any CUDA header. `stream` is
// a cudaStream_t of the calling thread's context. Nothing empty is given. Blocks: never. Errors: CudaError of a launch
// that was refused.
void normalize_on_gpu(void* stream, void* to, const std::uint8_t* pixels, const NormalizePlan& plan);
// `type`: float16 or bfloat16.
void cast_on_gpu(void* stream, void* to, DType type, const void* from, std::size_t elements);
// `confidence` may be null.
void map_classes_on_gpu(void* stream, std::uint8_t* ids, std::uint8_t* confidence, const float* scores,
                        const ClassMapPlan& plan);
// `confidence` may be null.
void map_foreground_on_gpu(void* stream, std::uint8_t* ids, std::uint8_t* confidence, float* outliers,
                           const float* scores, const ForegroundPlan& plan);

}  // namespace offramp
