#include <charconv>
#include <string_view>

#include "common/base/remedy.hpp"
#include "producer/device/cuda_device.hpp"
#include "producer/device/cuda_failure.hpp"
#include "producer/device/device.hpp"
#include "producer/device/gpu_search.hpp"

namespace offramp {
namespace {

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

std::unique_ptr<Device> open_device(const std::string& which, int runtime_version) {
    if (which == "cpu") return open_cpu_device();
    if (which == "auto")
        return find_gpus(runtime_version).count > 0 ? open_cuda_device(0, runtime_version) : open_cpu_device();

    const int index = parse_index(which);
    const GpuSearch search = find_gpus(runtime_version);
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
