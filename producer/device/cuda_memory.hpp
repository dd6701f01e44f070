#pragma once

#include <cstddef>
#include <span>

#include "producer/device/device.hpp"

namespace offramp {

// Owns device memory (cudaMalloc). Errors: CudaError DeviceOutOfMemory with needed and free bytes and the
// purpose.
class CudaDeviceBuffer final : public DeviceBuffer {
  public:
    CudaDeviceBuffer(std::size_t bytes, const std::string& purpose);
    ~CudaDeviceBuffer() override;
    CudaDeviceBuffer(const CudaDeviceBuffer&) = delete;
    CudaDeviceBuffer& operator=(const CudaDeviceBuffer&) = delete;
    std::byte* data() const override { return data_; }
    std::size_t bytes() const override { return bytes_; }

  private:
    std::byte* data_ = nullptr;
    std::size_t bytes_;
};

// Owns page-locked host memory (cudaHostAlloc), cached for the CPU: staging is written and read by ordinary
// code.
class CudaHostBuffer final : public DeviceBuffer {
  public:
    CudaHostBuffer(std::size_t bytes, const std::string& purpose);
    ~CudaHostBuffer() override;
    CudaHostBuffer(const CudaHostBuffer&) = delete;
    CudaHostBuffer& operator=(const CudaHostBuffer&) = delete;
    std::byte* data() const override { return data_; }
    std::size_t bytes() const override { return bytes_; }

  private:
    std::byte* data_ = nullptr;
    std::size_t bytes_;
};

// Owns the registration of a mapped range (cudaHostRegister). Errors: CudaError DeviceUnsupported when it
// cannot be page-locked.
class CudaPinnedRegistration final : public PinnedRegistration {
  public:
    explicit CudaPinnedRegistration(std::span<std::byte> range);
    ~CudaPinnedRegistration() override;
    CudaPinnedRegistration(const CudaPinnedRegistration&) = delete;
    CudaPinnedRegistration& operator=(const CudaPinnedRegistration&) = delete;

  private:
    std::byte* start_;
};

}  // namespace offramp
