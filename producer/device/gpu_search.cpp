#include "producer/device/gpu_search.hpp"

#include <cstdlib>

#include "producer/device/check.hpp"

namespace offramp {
namespace {

std::string version_text(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Within a major version any driver runs any runtime.
std::string driver_obstacle() {
    int driver = 0;
    int runtime = 0;
    static_cast<void>(cudaDriverGetVersion(&driver));
    static_cast<void>(cudaRuntimeGetVersion(&runtime));
    static_cast<void>(cudaGetLastError());
    const std::string needed = version_text(runtime / 1000 * 1000);
    const std::string release = runtime / 1000 == 13   ? " (release 580 or later)"
                                : runtime / 1000 == 12 ? " (release 525 or later)"
                                                       : "";
    if (driver == 0)
        return "no NVIDIA driver is installed here (libcuda.so.1 is missing); one for CUDA " + needed +
               " or later is needed" + release;
    return "the NVIDIA driver is too old: found one for CUDA " + version_text(driver) +
           ", needed one for CUDA " + needed + " or later" + release;
}

std::string none_visible() {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (visible == nullptr) return "CUDA finds no GPU";
    return "CUDA finds no GPU among CUDA_VISIBLE_DEVICES='" + std::string(visible) + "'";
}

}  // namespace

GpuSearch find_gpus() {
    GpuSearch search;
    const cudaError_t result = cudaGetDeviceCount(&search.count);
    if (result == cudaSuccess && search.count > 0) return search;
    search.count = 0;
    static_cast<void>(cudaGetLastError());
    if (result == cudaErrorInsufficientDriver || result == cudaErrorStubLibrary)
        search.obstacle = driver_obstacle();
    else if (result == cudaSuccess || result == cudaErrorNoDevice)
        search.obstacle = none_visible();
    else
        search.obstacle = "CUDA cannot start: " + describe(result);
    return search;
}

}  // namespace offramp
