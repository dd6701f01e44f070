#include "producer/device/cuda_device.hpp"

#include <array>

#include "producer/device/check.hpp"
#include "producer/device/cuda_event.hpp"
#include "producer/device/cuda_memory.hpp"
#include "producer/device/cuda_stream.hpp"
#include "producer/device/device_guard.hpp"
#include "producer/device/page_locking.hpp"
#include "producer/device/pci_link.hpp"

// Of libcudart; their header is a package of its own, which nothing else needs.
extern "C" cudaError_t cudaProfilerStart(void);
extern "C" cudaError_t cudaProfilerStop(void);

namespace offramp {
namespace {

class CudaDevice final : public Device {
  public:
    explicit CudaDevice(int index) : index_(index) {
        check(cudaSetDevice(index), "cudaSetDevice");
        check(cudaGetDeviceProperties(&properties_, index), "cudaGetDeviceProperties");
    }

    DeviceInfo info() const override {
        const DeviceGuard guard(index_);
        DeviceInfo info;
        info.kind = "cuda";
        info.name = properties_.name;
        info.index = index_;
        check(cudaMemGetInfo(&info.free_bytes, &info.total_bytes), "cudaMemGetInfo");
        info.compute_major = properties_.major;
        info.compute_minor = properties_.minor;
        check(cudaDriverGetVersion(&info.driver_version), "cudaDriverGetVersion");
        check(cudaRuntimeGetVersion(&info.runtime_version), "cudaRuntimeGetVersion");
        std::array<char, 32> address{};
        check(cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), index_),
              "cudaDeviceGetPCIBusId");
        const PciLink link = read_pci_link(address.data());
        info.pci_address = link.address;
        info.pcie_generation = link.generation;
        info.pcie_width = link.width;
        info.numa_node = link.numa_node;
        return info;
    }
    bool is_gpu() const override { return true; }
    void use_on_this_thread() override { check(cudaSetDevice(index_), "cudaSetDevice"); }

    std::unique_ptr<Stream> make_stream(const std::string& name) override {
        const DeviceGuard guard(index_);
        return std::make_unique<CudaStream>(name);
    }
    std::unique_ptr<Event> make_event(Timing timing) override {
        const DeviceGuard guard(index_);
        return std::make_unique<CudaEvent>(timing);
    }
    std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, const std::string& purpose) override {
        const DeviceGuard guard(index_);
        return std::make_unique<CudaDeviceBuffer>(bytes, purpose);
    }
    std::unique_ptr<DeviceBuffer> allocate_pinned_host(std::size_t bytes,
                                                       const std::string& purpose) override {
        const DeviceGuard guard(index_);
        return std::make_unique<CudaHostBuffer>(bytes, purpose);
    }
    std::unique_ptr<PinnedRegistration> pin(std::span<std::byte> range) override {
        expect_pinnable(range);
        const DeviceGuard guard(index_);
        return std::make_unique<CudaPinnedRegistration>(range);
    }
    void start_profiler() override { check(cudaProfilerStart(), "cudaProfilerStart"); }
    void stop_profiler() override { check(cudaProfilerStop(), "cudaProfilerStop"); }

    PinningProof prove_pinned(std::span<std::byte> range) override {
        const DeviceGuard guard(index_);
        return {.registered = is_page_locked(range), .gigabytes_per_second = timed_copy_into(*this, range)};
    }

  private:
    // Every 2 MiB and the last byte: a range that was registered in part only is found out.
    static bool is_page_locked(std::span<std::byte> range) {
        constexpr std::size_t kStep = std::size_t{2} << 20;
        for (std::size_t offset = 0; offset < range.size(); offset += kStep)
            if (!is_page_locked(&range[offset])) return false;
        return is_page_locked(&range.back());
    }
    static bool is_page_locked(const std::byte* address) {
        cudaPointerAttributes attributes{};
        check(cudaPointerGetAttributes(&attributes, address), "cudaPointerGetAttributes");
        return attributes.type == cudaMemoryTypeHost;
    }

    int index_;
    cudaDeviceProp properties_{};
};

}  // namespace

std::unique_ptr<Device> open_cuda_device(int index) {
    return std::make_unique<CudaDevice>(index);
}

}  // namespace offramp
