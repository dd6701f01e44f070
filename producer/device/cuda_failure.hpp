#pragma once

#include <source_location>
#include <string_view>

#include "common/base/error_kind.hpp"
#include "producer/device/cuda_error.hpp"

namespace offramp {

// The meaning of CUDA's error numbers for a program. Driver and runtime share their numbers (cuda.h, driver_types.h),
// and no number means two things, so callers of either use these functions.

// True for errors after which every call of the process fails: the context is lost.
bool is_sticky(int error_number) noexcept;

// The exit code for a program that ends because of it. Errors not known to be harmless count as a lost context.
ErrorKind error_kind_of(int error_number) noexcept;

// "cudaErrorNoDevice (100), no CUDA-capable device is detected"
std::string describe(const CudaCause& cause, std::string_view text);

// Throws CudaError: "cuMemFree failed: CUDA_ERROR_ILLEGAL_ADDRESS (700), an illegal memory access was encountered, at
// FILE:LINE". `text` is CUDA's own.
[[noreturn]] void throw_cuda_error(CudaCause cause, std::string_view text, std::source_location where);

}  // namespace offramp
