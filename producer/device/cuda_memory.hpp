#pragma once

#include <cstddef>
#include <span>

#include "producer/device/device.hpp"
#include "producer/device/driver_api.hpp"

namespace offramp {

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
