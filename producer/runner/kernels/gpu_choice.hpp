#pragma once

#include <memory>
#include <string>

#include "producer/device/device.hpp"
#include "producer/device/gpu_search.hpp"

namespace offramp {

// What the device library finds and opens, as far as this program's kernels and its models' libraries run there too.
// This program asks here alone.

// Thread: any. Blocks: while the driver is loaded. Errors: none; whatever is wrong is the obstacle, also that this
// program was built without CUDA.
GpuSearch find_gpus_for_kernels();

// `which`: as of open_device(). A GPU is the calling thread's afterwards. Errors: those of open_device(); CudaError
// DeviceUnsupported when the GPU is older than every architecture of this build.
std::unique_ptr<Device> open_device_for_kernels(const std::string& which);

}  // namespace offramp
