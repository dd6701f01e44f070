#include "producer/runner/kernels/gpu_runtime.hpp"

#include "producer/runner/kernels/launches.hpp"
#include "producer/runner/kernels/runtime_check.hpp"

// Functions of libcudart; their header is in a separate package, needed only here.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" cudaError_t cudaProfilerStart(void);
extern "C" cudaError_t cudaProfilerStop(void);
// NOLINTEND(readability-identifier-naming)

namespace offramp {
namespace {

// Check now instead of in the first kernel: CUDA loads device code lazily.
void require_kernels(const DeviceInfo& device) {
    const cudaError_t result = find_kernels_for_current_device();
    if (result == cudaSuccess) return;
    if (is_sticky(static_cast<int>(result))) check(result, "cudaFuncGetAttributes");
    static_cast<void>(cudaGetLastError());
    throw CudaError(ErrorKind::DeviceUnsupported,
                    "GPU " + std::to_string(device.index) + " (" + device.name +
                        ") cannot run this build: it has compute capability " + std::to_string(device.compute_major) +
                        "." + std::to_string(device.compute_minor) +
                        ", device code was built for " OFFRAMP_CUDA_ARCHITECTURES ": " + describe(result),
                    "Build with -DOFFRAMP_CUDA_ARCHITECTURES for this GPU, or run on the CPU (--device cpu)",
                    cause_of(result, "cudaFuncGetAttributes"));
}

int runtime_version() {
    int version = 0;
    check(cudaRuntimeGetVersion(&version), "cudaRuntimeGetVersion");  // works without a driver
    return version;
}

}  // namespace

GpuSearch find_gpus_for_kernels() { return find_gpus(runtime_version()); }

std::unique_ptr<Device> open_device_for_kernels(const std::string& which) {
    std::unique_ptr<Device> device = open_device(which, runtime_version());
    if (!device->is_gpu()) return device;
    device->use_on_this_thread();
    require_kernels(device->info());
    return device;
}

void start_profiler(const Device& device) {
    if (device.is_gpu()) check(cudaProfilerStart(), "cudaProfilerStart");
}

void stop_profiler(const Device& device) {
    if (device.is_gpu()) check(cudaProfilerStop(), "cudaProfilerStop");
}

CudaCause cause_of(cudaError_t error, std::string_view call) {
    return {std::string(call), cudaGetErrorName(error), static_cast<int>(error)};
}

std::string describe(cudaError_t error) { return describe(cause_of(error, {}), cudaGetErrorString(error)); }

void check(cudaError_t result, std::string_view call, std::source_location where) {
    if (result == cudaSuccess) [[likely]]
        return;
    static_cast<void>(cudaGetLastError());
    throw_cuda_error(cause_of(result, call), cudaGetErrorString(result), where);
}

}  // namespace offramp
