#include "producer/runner/probe/machine_probe.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string_view>

#include "common/json/json_text.hpp"
#include "common/shm/shared_region.hpp"
#include "producer/device/device.hpp"
#include "producer/runner/kernels/gpu_runtime.hpp"
#include "producer/runner/kernels/jpeg_decoder.hpp"

namespace offramp {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kProbeBytes = std::size_t{64} << 20;

struct OpenedDevice {
    std::unique_ptr<Device> device;
    Json gpu_error;  // null: the GPU is used
};

// A GPU that cannot be opened is reported; the rest of the probe continues.
OpenedDevice open_best_device() {
    const GpuSearch search = find_gpus_for_kernels();
    if (search.count == 0) return {open_cpu_device(), search.obstacle};
    try {
        return {open_device_for_kernels("cuda:0"), nullptr};
    } catch (const std::exception& error) {
        return {open_cpu_device(), error.what()};
    }
}

Json describe_device(const Device& device) {
    const DeviceInfo info = device.info();
    return {{"kind", info.kind},
            {"name", info.name},
            {"driver_version", info.driver_version},
            {"runtime_version", info.runtime_version},
            {"compute", std::to_string(info.compute_major) + "." + std::to_string(info.compute_minor)},
            {"pcie_generation", info.pcie_generation},
            {"pcie_width", info.pcie_width},
            {"pci_address", info.pci_address},
            {"numa_node", info.numa_node},
            {"total_bytes", info.total_bytes},
            {"free_bytes", info.free_bytes}};
}

Json prove_pinning(Device& device) {
    try {
        std::random_device random;
        const std::string name =
            "/offramp-probe-" + std::to_string(::getpid()) + "-" + std::to_string(random()) + std::to_string(random());
        SharedRegion region = SharedRegion::create(name, kProbeBytes);
        region.unlink();  // from here on no failure leaves it behind
        region.populate(0, kProbeBytes);
        const std::unique_ptr<PinnedRegistration> registration = device.pin(region.bytes());
        const PinningProof proof = device.prove_pinned(region.bytes());
        return {
            {"registered", proof.registered}, {"gigabytes_per_second", proof.gigabytes_per_second}, {"error", nullptr}};
    } catch (const std::exception& error) {
        return {{"registered", false}, {"gigabytes_per_second", 0.0}, {"error", error.what()}};
    }
}

Json jpeg_decoder(const Device& device) {
    try {
        return {{"name", JpegDecoder::open(device)->description()}, {"error", nullptr}};
    } catch (const std::exception& error) {
        return {{"name", nullptr}, {"error", error.what()}};
    }
}

Json shared_memory() {
    struct statvfs room {};
    if (::statvfs("/dev/shm", &room) != 0) return {{"total", 0}, {"free", 0}};
    return {{"total", std::uint64_t{room.f_blocks} * room.f_frsize},
            {"free", std::uint64_t{room.f_bavail} * room.f_frsize}};
}

Json memlock_bytes() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return nullptr;
    return std::uint64_t{limit.rlim_cur};
}

// Cores available to the process: a container's set, not the machine's.
int cores() {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
    return static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

int numa_nodes() {
    int nodes = 0;
    std::error_code missing;
    for (const auto& entry : std::filesystem::directory_iterator("/sys/devices/system/node", missing)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with("node") && name.size() > 4 && std::isdigit(static_cast<unsigned char>(name[4])) != 0)
            ++nodes;
    }
    return std::max(1, nodes);
}

}  // namespace

std::string probe_machine_json() {
    OpenedDevice opened = open_best_device();
    Json probe;
    try {
        probe["device"] = describe_device(*opened.device);
    } catch (const std::exception& error) {
        opened = {open_cpu_device(), error.what()};
        probe["device"] = describe_device(*opened.device);
    }
    probe["gpu_error"] = opened.gpu_error;
    probe["pinning"] = prove_pinning(*opened.device);
    probe["jpeg_decoder"] = jpeg_decoder(*opened.device);
    probe["shm"] = shared_memory();
    probe["cores"] = cores();
    probe["memlock_bytes"] = memlock_bytes();
    probe["numa_nodes"] = numa_nodes();
    return json_text(probe, 2);
}

}  // namespace offramp
