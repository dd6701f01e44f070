#pragma once

#include <cstddef>
#include <cstdint>

#include "common/wire/tensor_spec.hpp"
#include "producer/runner/kernels/kernel_plans.hpp"

namespace offramp {

// The GPU's side of kernels.hpp, with the same bits as cpu_kernels.hpp on the CPU; without any CUDA header. `stream` is
// a cudaStream_t of the calling thread's context. Arguments are never empty. Blocks: never. Errors: CudaError of a
// refused launch.
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
