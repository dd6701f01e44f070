#include "producer/device/gpu_search.hpp"

#include <algorithm>
#include <cstdlib>

#include "producer/device/context_guard.hpp"
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

}  // namespace

GpuSearch find_gpus(int runtime_version) {
    // Within a major version any driver runs any runtime.
    const int needed = std::max(driver::kNeededVersion, runtime_version / 1000 * 1000);
    const driver::Library& library = driver::library();
    if (!library.obstacle.empty()) return {.count = 0, .obstacle = library.obstacle};
    if (library.version < needed) return {.count = 0, .obstacle = driver_obstacle(library.version, needed)};

    GpuSearch search;
    driver::Result result = driver::api().init(0);
    if (result == driver::kSuccess) result = driver::api().device_get_count(&search.count);
    if (result == driver::kSuccess && search.count > 0) return search;
    search.count = 0;
    if (result == driver::kSuccess || result == driver::kNoDevice)
        search.obstacle = none_visible();
    else
        search.obstacle = "CUDA cannot start: " + describe(result);
    return search;
}

}  // namespace offramp
