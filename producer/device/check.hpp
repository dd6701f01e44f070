#pragma once

#include <cuda_runtime_api.h>

#include <source_location>
#include <string>
#include <string_view>

#include "common/base/exit_code.hpp"
#include "producer/device/cuda_error.hpp"

namespace offramp {

// Throws CudaError unless `result` is cudaSuccess: "cudaFree failed: cudaErrorIllegalAddress (700), an
// illegal memory access was encountered, at FILE:LINE". Clears the thread's last error, so that a later
// launch is not blamed for it.
void check(cudaError_t result, std::string_view call,
           std::source_location where = std::source_location::current());

// For destructors: logs instead of throwing. cudaErrorCudartUnloading is success: the process is ending and
// CUDA has already freed everything.
void log_unless_freed(cudaError_t result, std::string_view call) noexcept;

// True for errors after which every call of the process fails: the context is lost.
bool is_sticky(cudaError_t error) noexcept;

// What a program that ends because of `error` returns.
ExitCode exit_code_of(cudaError_t error) noexcept;

CudaCause cause_of(cudaError_t error, std::string_view call);

// "cudaErrorNoDevice (100), no CUDA-capable device is detected"
std::string describe(cudaError_t error);

}  // namespace offramp
