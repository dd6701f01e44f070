// Stands in for gpu_search.cpp and cuda_device.cpp in a build without CUDA.
#include "common/base/error.hpp"
#include "producer/device/cuda_device.hpp"
#include "producer/device/gpu_search.hpp"

namespace offramp {

GpuSearch find_gpus() {
    return {.count = 0,
            .obstacle = "this program was built without CUDA (configure it with -DOFFRAMP_CUDA=ON)"};
}

std::unique_ptr<Device> open_cuda_device(int) {
    fail_expectation("a GPU is opened only when one was found", std::source_location::current());
}

}  // namespace offramp
