#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "common/wire/tensor_spec.hpp"
#include "producer/runner/kernels/kernel_plans.hpp"

namespace offramp {

// The .cu files' interface for gpu_kernels.cpp: each function puts one kernel on the stream and returns the launch's
// own result. The caller skips empty launches.
cudaError_t launch_normalize(cudaStream_t stream, void* to, const std::uint8_t* pixels, const NormalizePlan& plan);
// `type`: float16 or bfloat16.
cudaError_t launch_cast(cudaStream_t stream, void* to, DType type, const void* from, std::size_t elements);
// `confidence` may be null.
cudaError_t launch_map_classes(cudaStream_t stream, std::uint8_t* ids, std::uint8_t* confidence, const float* scores,
                               const ClassMapPlan& plan);
// `confidence` may be null.
cudaError_t launch_map_foreground(cudaStream_t stream, std::uint8_t* ids, std::uint8_t* confidence, float* outliers,
                                  const float* scores, const ForegroundPlan& plan);
// `outliers` are 0 before.
cudaError_t launch_make_pixels(cudaStream_t stream, std::uint8_t* pixels, float* outliers,
                               const kernels::PictureNumbers& input);

cudaError_t launch_resize(cudaStream_t stream, const ResizePlan& plan);

// True if the current device can run this build's device code (a GPU older than every architecture of the build
// cannot).
cudaError_t find_kernels_for_current_device();

}  // namespace offramp
