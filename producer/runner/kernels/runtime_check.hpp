#pragma once

#include <cuda_runtime_api.h>

#include <source_location>
#include <string>
#include <string_view>

#include "producer/device/cuda_failure.hpp"

namespace offramp {

// Throws CudaError unless `result` is cudaSuccess, like the device library for the driver's calls. Clears the thread's
// last error, so that a later launch is not blamed for it.
void check(cudaError_t result, std::string_view call, std::source_location where = std::source_location::current());

CudaCause cause_of(cudaError_t error, std::string_view call);

// "cudaErrorNoDevice (100), no CUDA-capable device is detected"
std::string describe(cudaError_t error);

}  // namespace offramp
