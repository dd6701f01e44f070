#pragma once

#include <memory>

#include "producer/device/device.hpp"

namespace offramp {

// Opens GPU `index`, below find_gpus().count. `runtime_version`: as of open_device(). The calling thread keeps its
// current context. Errors: CudaError with CUDA's error.
std::unique_ptr<Device> open_cuda_device(int index, int runtime_version);

}  // namespace offramp
