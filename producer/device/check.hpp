#pragma once

#include <source_location>
#include <string>
#include <string_view>

#include "producer/device/cuda_failure.hpp"
#include "producer/device/driver_api.hpp"

namespace offramp {

// Throws CudaError unless `result` is success: "cuMemFree failed: CUDA_ERROR_ILLEGAL_ADDRESS (700), an illegal
// memory access was encountered, at FILE:LINE".
void check(driver::Result result, std::string_view call, std::source_location where = std::source_location::current());

// For destructors: logs instead of throwing. CUDA_ERROR_DEINITIALIZED is success: the process is ending and
// CUDA has already freed everything.
void log_unless_freed(driver::Result result, std::string_view call) noexcept;

CudaCause cause_of(driver::Result error, std::string_view call);

// "CUDA_ERROR_NO_DEVICE (100), no CUDA-capable device is detected"
std::string describe(driver::Result error);

}  // namespace offramp
