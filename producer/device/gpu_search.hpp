#pragma once

#include <string>

namespace offramp {

// What CUDA finds on this machine, before any device is opened.
struct GpuSearch {
    int count = 0;
    std::string obstacle;  // why there is none to use, in one sentence; empty when count > 0
};

// `runtime_version`: of the CUDA runtime that the caller uses beside this library, for kernels or a framework, which
// the driver has to fit too (13000 is 13.0); 0: none. This library itself needs a driver for CUDA 12.0. Thread: any.
// Blocks: while the driver is loaded. Errors: none; whatever is wrong is the obstacle. open_device("auto") takes the
// CPU exactly when count is 0: log the obstacle then, so that the choice is seen.
GpuSearch find_gpus(int runtime_version = 0);

}  // namespace offramp
