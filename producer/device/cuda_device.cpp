#include "producer/device/cuda_device.hpp"

#include <spdlog/fmt/fmt.h>

#include <array>

#include "producer/device/check.hpp"
#include "producer/device/context_guard.hpp"
#include "producer/device/cuda_event.hpp"
#include "producer/device/cuda_memory.hpp"
#include "producer/device/cuda_stream.hpp"
#include "producer/device/cuda_stream_view.hpp"
#include "producer/device/driver_api.hpp"
#include "producer/device/page_locking.hpp"
#include "producer/device/pci_link.hpp"

namespace offramp {
namespace {

// Uses the GPU's primary context, which the CUDA runtime, and so PyTorch, also uses. It is retained and, as in the
// runtime, never released: other code in the process may have it current, and creating it again takes a third of a
// second.
class CudaDevice final : public Device {
  public:
    CudaDevice(int index, int runtime_version) : index_(index), runtime_version_(runtime_version) {
        check(driver::api().device_get(&device_, index), "cuDeviceGet");
        check(driver::api().primary_context_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
    }

    DeviceInfo info() const override {
        const ContextGuard guard(context_);
        DeviceInfo info;
        info.kind = "cuda";
        std::array<char, 256> name{};
        check(driver::api().device_get_name(name.data(), static_cast<int>(name.size()), device_), "cuDeviceGetName");
        info.name = name.data();
        info.index = index_;
        info.uuid = uuid(info.name);
        check(driver::api().memory_info(&info.free_bytes, &info.total_bytes), "cuMemGetInfo");
        info.compute_major = attribute(driver::kComputeMajor);
        info.compute_minor = attribute(driver::kComputeMinor);
        check(driver::api().driver_get_version(&info.driver_version), "cuDriverGetVersion");
        info.runtime_version = runtime_version_;
        std::array<char, 32> address{};
        check(driver::api().device_get_pci_bus_id(address.data(), static_cast<int>(address.size()), device_),
              "cuDeviceGetPCIBusId");
        const PciLink link = read_pci_link(address.data());
        info.pci_address = link.address;
        info.pcie_generation = link.generation;
        info.pcie_width = link.width;
        info.numa_node = link.numa_node;
        return info;
    }
    bool is_gpu() const override { return true; }
    void use_on_this_thread() override {
        check(driver::api().context_set_current(context_), "cuCtxSetCurrent");
        int mode = driver::kCaptureRelaxed;
        check(driver::api().exchange_capture_mode(&mode), "cuThreadExchangeStreamCaptureMode");
    }

    std::unique_ptr<Stream> make_stream(const std::string& name) override {
        const ContextGuard guard(context_);
        return std::make_unique<CudaStream>(context_, name);
    }
    std::unique_ptr<Stream> borrow_stream(void* native) override {
        return std::make_unique<CudaStreamView>(context_, static_cast<driver::StreamHandle>(native));
    }
    std::unique_ptr<Event> make_event(Timing timing) override {
        const ContextGuard guard(context_);
        return std::make_unique<CudaEvent>(context_, timing);
    }
    std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, const std::string& purpose) override {
        const ContextGuard guard(context_);
        return std::make_unique<CudaDeviceBuffer>(context_, bytes, purpose);
    }
    std::unique_ptr<DeviceBuffer> allocate_pinned_host(std::size_t bytes, const std::string& purpose) override {
        const ContextGuard guard(context_);
        return std::make_unique<CudaHostBuffer>(context_, bytes, purpose);
    }
    std::unique_ptr<PinnedRegistration> pin(std::span<std::byte> range) override {
        expect_pinnable(range);
        const ContextGuard guard(context_);
        return std::make_unique<CudaPinnedRegistration>(context_, range);
    }

    PinningProof prove_pinned(std::span<std::byte> range) override {
        const ContextGuard guard(context_);
        return {.registered = is_page_locked(range), .gigabytes_per_second = timed_copy_into(*this, range)};
    }

  private:
    // In the form of NVIDIA's tools. For a MIG instance, recognised by its name, the instance's own.
    std::string uuid(const std::string& name) const {
        std::array<unsigned char, 16> bytes{};
        check(driver::api().device_get_uuid(reinterpret_cast<CUuuid_st*>(bytes.data()), device_), "cuDeviceGetUuid");
        std::string text = name.find(" MIG ") == std::string::npos ? "GPU" : "MIG";
        for (std::size_t i = 0; i < bytes.size(); ++i)
            text += fmt::format("{}{:02x}", i == 0 || (i >= 4 && i <= 10 && i % 2 == 0) ? "-" : "", bytes[i]);
        return text;
    }
    int attribute(int wanted) const {
        int value = 0;
        check(driver::api().device_get_attribute(&value, wanted, device_), "cuDeviceGetAttribute");
        return value;
    }

    // Checks every 2 MiB and the last byte: this detects a range that was registered only in part.
    static bool is_page_locked(std::span<std::byte> range) {
        constexpr std::size_t kStep = std::size_t{2} << 20;
        for (std::size_t offset = 0; offset < range.size(); offset += kStep)
            if (!is_page_locked(&range[offset])) return false;
        return is_page_locked(&range.back());
    }
    static bool is_page_locked(const std::byte* address) {
        int attribute = driver::kMemoryType;
        unsigned type = 0;  // stays 0 for memory unknown to CUDA
        void* value = &type;
        check(driver::api().pointer_get_attributes(1, &attribute, &value, reinterpret_cast<driver::Address>(address)),
              "cuPointerGetAttributes");
        return type == driver::kMemoryTypeHost;
    }

    int index_;
    int runtime_version_;
    driver::DeviceNumber device_ = 0;
    driver::Context context_ = nullptr;
};

}  // namespace

std::unique_ptr<Device> open_cuda_device(int index, int runtime_version) {
    return std::make_unique<CudaDevice>(index, runtime_version);
}

}  // namespace offramp
