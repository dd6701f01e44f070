#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "producer/cuda/normalize_plan.hpp"
#include "producer/cuda/strided_copy.hpp"

namespace offramp {

// The device's side of Stream's three operations: each puts one kernel on the stream and gives back the
// launch's own result. Nothing empty is launched: the caller leaves that out. Results are bit for bit those
// of cpu_kernels.hpp.
cudaError_t launch_normalize(cudaStream_t stream, void* to, const std::uint8_t* pixels,
                             const NormalizePlan& plan);
cudaError_t launch_convert_to_bfloat16(cudaStream_t stream, void* to, const void* from, std::size_t elements);
cudaError_t launch_pack(cudaStream_t stream, void* to, const void* from, const StridedCopy& copy);

// Whether the current device can run this build's device code at all (a GPU older than every architecture of
// the build cannot).
cudaError_t find_kernels_for_current_device();

}  // namespace offramp
