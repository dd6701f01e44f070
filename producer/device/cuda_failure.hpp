#pragma once

#include <source_location>
#include <string_view>

#include "common/base/error_kind.hpp"
#include "producer/device/cuda_error.hpp"

namespace offramp {

// What CUDA's numbers of errors mean for a program. The driver's and the runtime's are the same where both have one
// (cuda.h, driver_types.h), and no number means two things, so that callers of either ask here.

// True for errors after which every call of the process fails: the context is lost.
bool is_sticky(int error_number) noexcept;

// What a program that ends because of it returns. What is not known to be harmless counts as a lost context.
ErrorKind error_kind_of(int error_number) noexcept;

// "cudaErrorNoDevice (100), no CUDA-capable device is detected"
std::string describe(const CudaCause& cause, std::string_view text);

// Throws CudaError: "cuMemFree failed: CUDA_ERROR_ILLEGAL_ADDRESS (700), an illegal memory access was encountered, at
// FILE:LINE". `text` is CUDA's own.
[[noreturn]] void throw_cuda_error(CudaCause cause, std::string_view text, std::source_location where);

}  // namespace offramp
