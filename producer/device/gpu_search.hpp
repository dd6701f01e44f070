#pragma once

#include <string>

namespace offramp {

// The GPUs that CUDA finds on this machine, before any device is opened.
struct GpuSearch {
    int count = 0;
    std::string obstacle;     // why none can be used, in one sentence; empty when count > 0
    bool is_failure = false;  // a driver is installed but unusable, so this machine may have a GPU
};

// `runtime_version`: of the CUDA runtime that the caller uses beside this library, for kernels or a framework: the
// driver must also fit it (13000 is 13.0); 0: none. This library itself needs a driver for CUDA 12.0. Thread: any.
// Blocks: while the driver is loaded. Errors: none; every problem becomes the obstacle. open_device("auto") takes the
// CPU when count is 0, unless is_failure: log the obstacle then, so that the choice is visible.
GpuSearch find_gpus(int runtime_version = 0);

}  // namespace offramp
