#include "producer/device/gpu_search.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "common/base/remedy.hpp"
#include "producer/device/context_guard.hpp"
#include "producer/device/cuda_device.hpp"
#include "producer/device/cuda_failure.hpp"
#include "producer/device/device.hpp"
#include "producer/device/driver_api.hpp"

namespace offramp {
namespace {

std::string version_text(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string driver_obstacle(int found, int needed) {
    const std::string wanted = "CUDA " + version_text(needed);
    const std::string release = needed / 1000 == 13   ? " (release 580 or later)"
                                : needed / 1000 == 12 ? " (release 525 or later)"
                                                      : "";
    if (found == 0)
        return "no NVIDIA driver is installed here (libcuda.so.1 is missing); one for " + wanted +
               " or later is needed" + release;
    return "the NVIDIA driver is too old: found one for CUDA " + version_text(found) + ", needed one for " + wanted +
           " or later" + release;
}

std::string none_visible() {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (visible == nullptr) return "CUDA finds no GPU";
    return "CUDA finds no GPU among CUDA_VISIBLE_DEVICES='" + std::string(visible) + "'";
}

int parse_index(const std::string& which) {
    static constexpr std::string_view kPrefix = "cuda:";
    if (which == "cuda") return 0;
    int index = -1;
    if (which.starts_with(kPrefix)) {
        const char* const end = which.data() + which.size();
        const auto [stopped_at, error] = std::from_chars(which.data() + kPrefix.size(), end, index);
        if (error != std::errc{} || stopped_at != end) index = -1;
    }
    if (index < 0)
        throw ConfigError("Unknown device '" + which + "'",
                          "Known: auto, cpu, cuda, cuda:N with N a GPU's number from 0");
    return index;
}

}  // namespace

GpuSearch find_gpus(int runtime_version) {
    // Within a major version any driver runs any runtime.
    const int needed = std::max(driver::kNeededVersion, runtime_version / 1000 * 1000);
    const driver::Library& library = driver::library();
    if (!library.obstacle.empty()) return {.count = 0, .obstacle = library.obstacle, .is_failure = library.installed};
    if (library.version < needed)
        return {.count = 0, .obstacle = driver_obstacle(library.version, needed), .is_failure = library.installed};

    GpuSearch search;
    driver::Result result = driver::api().init(0);
    if (result == driver::kSuccess) result = driver::api().device_get_count(&search.count);
    if (result == driver::kSuccess && search.count > 0) return search;
    search.count = 0;
    search.is_failure = result != driver::kSuccess && result != driver::kNoDevice;
    search.obstacle = search.is_failure ? "CUDA cannot start: " + describe(result) : none_visible();
    return search;
}

std::unique_ptr<Device> open_device(const std::string& which, int runtime_version) {
    if (which == "cpu") return open_cpu_device();
    const int index = which == "auto" ? 0 : parse_index(which);
    const GpuSearch search = find_gpus(runtime_version);
    if (which == "auto" && search.count == 0 && !search.is_failure) return open_cpu_device();
    if (search.count == 0)
        throw CudaError(ErrorKind::DeviceUnsupported, "Device '" + which + "' cannot be used: " + search.obstacle,
                        remedy(Remedy::RunOnCpu) + ", or fix the cause");
    if (index >= search.count) {
        const std::string known = search.count == 1 ? "1 GPU: cuda:0"
                                                    : std::to_string(search.count) +
                                                          " GPUs: cuda:0 to cuda:" + std::to_string(search.count - 1);
        throw CudaError(ErrorKind::DeviceUnsupported, "Device '" + which + "' does not exist: CUDA finds " + known,
                        "Choose one of them; CUDA_VISIBLE_DEVICES may hide others");
    }
    return open_cuda_device(index, runtime_version);
}

}  // namespace offramp
