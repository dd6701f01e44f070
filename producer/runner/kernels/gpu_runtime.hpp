#pragma once

#include <memory>
#include <string>

#include "producer/device/device.hpp"
#include "producer/device/gpu_search.hpp"

namespace offramp {

// The device library's search and opening of GPUs, limited to those that can run this program's kernels and its models'
// libraries. The only way for this program to open a GPU.

// Thread: any. Blocks: while the driver is loaded. Errors: none; every problem becomes the obstacle, including a
// program built without CUDA.
GpuSearch find_gpus_for_kernels();

// `which`: as of open_device(). A GPU becomes the calling thread's. Errors: those of open_device(); CudaError
// DeviceUnsupported when the GPU is older than every architecture of this build.
std::unique_ptr<Device> open_device_for_kernels(const std::string& which);

// Mark the part of a run that a profiler captures (nsys --capture-range=cudaProfilerApi). No effect without a profiler
// or a GPU. Thread: one that uses the device. Errors: CudaError.
void start_profiler(const Device& device);
void stop_profiler(const Device& device);

}  // namespace offramp
