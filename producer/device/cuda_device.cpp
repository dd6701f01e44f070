#include "producer/device/cuda_device.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>

#include "common/base/remedy.hpp"
#include "producer/device/context_guard.hpp"
#include "producer/device/cuda_stream.hpp"
#include "producer/device/driver_api.hpp"
#include "producer/device/host_memory.hpp"

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

    std::unique_ptr<Stream> make_stream(const std::string& name, Priority priority) override {
        const ContextGuard guard(context_);
        return std::make_unique<CudaStream>(context_, name, priority);
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

int read_number(const std::filesystem::path& file, int otherwise) {
    std::ifstream stream(file);
    int number = 0;
    return stream >> number ? number : otherwise;
}

// The file says "32.0 GT/s PCIe".
int read_generation(const std::filesystem::path& file) {
    static constexpr std::array<double, 6> kTransfers{2.5, 5, 8, 16, 32, 64};
    std::ifstream stream(file);
    double transfers = 0;
    if (!(stream >> transfers)) return 0;
    const auto* const found = std::find(kTransfers.begin(), kTransfers.end(), transfers);
    return found == kTransfers.end() ? 0 : static_cast<int>(found - kTransfers.begin()) + 1;
}

}  // namespace

std::unique_ptr<Device> open_cuda_device(int index, int runtime_version) {
    return std::make_unique<CudaDevice>(index, runtime_version);
}

PciLink read_pci_link(const std::string& address, const std::filesystem::path& devices) {
    PciLink link;
    link.address = address;
    std::transform(address.begin(), address.end(), link.address.begin(),
                   [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    const std::filesystem::path folder = devices / link.address;
    link.generation = read_generation(folder / "current_link_speed");
    link.width = std::max(0, read_number(folder / "current_link_width", 0));
    link.numa_node = read_number(folder / "numa_node", -1);
    return link;
}

CudaDeviceBuffer::CudaDeviceBuffer(driver::Context context, std::size_t bytes, const std::string& purpose)
    : context_(context), bytes_(bytes) {
    expect(bytes > 0, "a device buffer has at least one byte");
    driver::Address memory = 0;
    const driver::Result result = driver::api().memory_allocate(&memory, bytes);
    if (result == driver::kOutOfMemory) {
        std::size_t free = 0;
        std::size_t total = 0;
        check(driver::api().memory_info(&free, &total), "cuMemGetInfo");
        throw CudaError(ErrorKind::DeviceOutOfMemory,
                        "GPU out of memory for " + purpose + ": needed " + byte_count(bytes) + ", free " +
                            byte_count(free) + " of " + byte_count(total),
                        remedy(Remedy::SmallerBatches) + ", or free the memory that other processes hold (nvidia-smi)",
                        cause_of(result, "cuMemAlloc"));
    }
    check(result, "cuMemAlloc");
    data_ = reinterpret_cast<std::byte*>(memory);  // NOLINT(performance-no-int-to-ptr): CUDA returns an address
}

CudaDeviceBuffer::~CudaDeviceBuffer() {
    const auto memory = reinterpret_cast<driver::Address>(data_);
    free_within(
        context_, [&] { return driver::api().memory_free(memory); }, "cuMemFree");
}

CudaHostBuffer::CudaHostBuffer(driver::Context context, std::size_t bytes, const std::string& purpose)
    : context_(context), bytes_(bytes) {
    expect(bytes > 0, "a pinned buffer has at least one byte");
    void* memory = nullptr;
    const driver::Result result = driver::api().host_allocate(&memory, bytes, driver::kHostAllocPortable);
    if (result == driver::kOutOfMemory) {
        throw CudaError(ErrorKind::DeviceOutOfMemory,
                        "No page-locked host memory for " + purpose + ": needed " + byte_count(bytes) + ", free " +
                            byte_count(free_host_memory()) + " of " + byte_count(total_host_memory()),
                        remedy(Remedy::SmallerHostBuffers) + ", or give the machine or its cgroup more memory",
                        cause_of(result, "cuMemHostAlloc"));
    }
    check(result, "cuMemHostAlloc");
    data_ = static_cast<std::byte*>(memory);
}

CudaHostBuffer::~CudaHostBuffer() {
    free_within(
        context_, [this] { return driver::api().host_free(data_); }, "cuMemFreeHost");
}

CudaPinnedRegistration::CudaPinnedRegistration(driver::Context context, std::span<std::byte> range)
    : context_(context), start_(range.data()) {
    // Neither ReadOnly (for data that the device only reads) nor IoMemory (non-coherent): both are wrong for copies to
    // the host.
    const driver::Result result =
        driver::api().host_register(range.data(), range.size(), driver::kHostRegisterPortable);
    if (result == driver::kSuccess) return;
    if (is_sticky(result) || error_kind_of(result) == ErrorKind::Internal) check(result, "cuMemHostRegister");
    throw CudaError(ErrorKind::DeviceUnsupported,
                    "Cannot page-lock " + byte_count(range.size()) + " of host memory: " + describe(result),
                    remedy(Remedy::PageLocking), cause_of(result, "cuMemHostRegister"));
}

CudaPinnedRegistration::~CudaPinnedRegistration() {
    free_within(
        context_, [this] { return driver::api().host_unregister(start_); }, "cuMemHostUnregister");
}

}  // namespace offramp
