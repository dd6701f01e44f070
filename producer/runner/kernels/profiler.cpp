#include "producer/runner/kernels/profiler.hpp"

#include "producer/runner/kernels/runtime_check.hpp"

// Functions of libcudart; their header is in a separate package, needed only here.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" cudaError_t cudaProfilerStart(void);
extern "C" cudaError_t cudaProfilerStop(void);
// NOLINTEND(readability-identifier-naming)

namespace offramp {

void start_profiler(const Device& device) {
    if (device.is_gpu()) check(cudaProfilerStart(), "cudaProfilerStart");
}

void stop_profiler(const Device& device) {
    if (device.is_gpu()) check(cudaProfilerStop(), "cudaProfilerStop");
}

}  // namespace offramp
