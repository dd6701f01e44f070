#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "producer/device/device.hpp"
#include "producer/device/driver_api.hpp"

namespace offramp {

// Opens GPU `index`, below find_gpus().count. `runtime_version`: as of open_device(). The calling thread keeps its
// current context. Errors: CudaError with CUDA's error.
std::unique_ptr<Device> open_cuda_device(int index, int runtime_version);

// The kernel's current view of a PCI device's link. An idle GPU runs its link at a lower generation to save power.
struct PciLink {
    std::string address;  // as sysfs writes it: "0000:1b:00.0"
    int generation = 0;   // 0: unknown
    int width = 0;        // lanes; 0: unknown
    int numa_node = -1;   // -1: unknown, or a machine with one node
};

// `address` in either case of letters: CUDA writes 1B where sysfs has 1b. Errors: none; values that cannot be read stay
// unknown.
PciLink read_pci_link(const std::string& address, const std::filesystem::path& devices = "/sys/bus/pci/devices");

// All of these borrow the context, which is current to their maker.

// Owns device memory (cuMemAlloc). Errors: CudaError DeviceOutOfMemory with needed and free bytes and the
// purpose.
class CudaDeviceBuffer final : public DeviceBuffer {
  public:
    CudaDeviceBuffer(driver::Context context, std::size_t bytes, const std::string& purpose);
    ~CudaDeviceBuffer() override;
    CudaDeviceBuffer(const CudaDeviceBuffer&) = delete;
    CudaDeviceBuffer& operator=(const CudaDeviceBuffer&) = delete;
    std::byte* data() const override { return data_; }
    std::size_t bytes() const override { return bytes_; }

  private:
    driver::Context context_;
    std::byte* data_ = nullptr;
    std::size_t bytes_;
};

// Owns page-locked host memory (cuMemHostAlloc), cached for the CPU: ordinary code reads and writes staging.
class CudaHostBuffer final : public DeviceBuffer {
  public:
    CudaHostBuffer(driver::Context context, std::size_t bytes, const std::string& purpose);
    ~CudaHostBuffer() override;
    CudaHostBuffer(const CudaHostBuffer&) = delete;
    CudaHostBuffer& operator=(const CudaHostBuffer&) = delete;
    std::byte* data() const override { return data_; }
    std::size_t bytes() const override { return bytes_; }

  private:
    driver::Context context_;
    std::byte* data_ = nullptr;
    std::size_t bytes_;
};

// Owns the registration of a mapped range (cuMemHostRegister). Errors: CudaError DeviceUnsupported when it
// cannot be page-locked.
class CudaPinnedRegistration final : public PinnedRegistration {
  public:
    CudaPinnedRegistration(driver::Context context, std::span<std::byte> range);
    ~CudaPinnedRegistration() override;
    CudaPinnedRegistration(const CudaPinnedRegistration&) = delete;
    CudaPinnedRegistration& operator=(const CudaPinnedRegistration&) = delete;

  private:
    driver::Context context_;
    std::byte* start_;
};

}  // namespace offramp
