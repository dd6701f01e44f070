#pragma once

#include <memory>

#include "producer/device/device.hpp"

namespace offramp {

// Opens GPU `index`, below find_gpus().count, and makes it the calling thread's. Errors: CudaError as
// CUDA says.
std::unique_ptr<Device> open_cuda_device(int index);

}  // namespace offramp
