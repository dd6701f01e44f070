#pragma once

#include "producer/device/device.hpp"

namespace offramp {

// Mark the part of a run that a profiler captures (nsys --capture-range=cudaProfilerApi). No effect without a profiler
// or a GPU. Thread: one that uses the device. Errors: CudaError.
void start_profiler(const Device& device);
void stop_profiler(const Device& device);

}  // namespace offramp
