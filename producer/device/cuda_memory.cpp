#include "producer/device/cuda_memory.hpp"

#include "producer/device/check.hpp"
#include "producer/device/host_memory.hpp"

namespace offramp {

CudaDeviceBuffer::CudaDeviceBuffer(std::size_t bytes, const std::string& purpose) : bytes_(bytes) {
    expect(bytes > 0, "a device buffer has at least one byte");
    void* memory = nullptr;
    const cudaError_t result = cudaMalloc(&memory, bytes);
    if (result == cudaErrorMemoryAllocation) {
        static_cast<void>(cudaGetLastError());
        std::size_t free = 0;
        std::size_t total = 0;
        check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
        throw CudaError(ExitCode::DeviceOutOfMemory,
                        "GPU out of memory for " + purpose + ": needed " + byte_count(bytes) + ", free " +
                            byte_count(free) + " of " + byte_count(total),
                        "Use a smaller --batch or --image-size, or free the memory that other processes hold "
                        "(nvidia-smi)",
                        cause_of(result, "cudaMalloc"));
    }
    check(result, "cudaMalloc");
    data_ = static_cast<std::byte*>(memory);
}

CudaDeviceBuffer::~CudaDeviceBuffer() {
    log_unless_freed(cudaFree(data_), "cudaFree");
}

CudaHostBuffer::CudaHostBuffer(std::size_t bytes, const std::string& purpose) : bytes_(bytes) {
    expect(bytes > 0, "a pinned buffer has at least one byte");
    void* memory = nullptr;
    const cudaError_t result = cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
    if (result == cudaErrorMemoryAllocation) {
        static_cast<void>(cudaGetLastError());
        throw CudaError(ExitCode::DeviceOutOfMemory,
                        "No page-locked host memory for " + purpose + ": needed " + byte_count(bytes) +
                            ", free " + byte_count(free_host_memory()) + " of " +
                            byte_count(total_host_memory()),
                        "Use a smaller --batch or --prefetch, or give the machine or its cgroup more memory",
                        cause_of(result, "cudaHostAlloc"));
    }
    check(result, "cudaHostAlloc");
    data_ = static_cast<std::byte*>(memory);
}

CudaHostBuffer::~CudaHostBuffer() {
    log_unless_freed(cudaFreeHost(data_), "cudaFreeHost");
}

CudaPinnedRegistration::CudaPinnedRegistration(std::span<std::byte> range) : start_(range.data()) {
    // Not ReadOnly (that is for what the device only reads) and not IoMemory (non-coherent): both are wrong
    // for copies to the host.
    const cudaError_t result = cudaHostRegister(range.data(), range.size(), cudaHostRegisterPortable);
    if (result == cudaSuccess) return;
    if (is_sticky(result) || exit_code_of(result) == ExitCode::Internal) check(result, "cudaHostRegister");
    static_cast<void>(cudaGetLastError());
    throw CudaError(ExitCode::DeviceUnsupported,
                    "Cannot page-lock " + byte_count(range.size()) + " of host memory: " + describe(result),
                    "Check the memory limit of the cgroup (memory.max); confidential-computing machines "
                    "forbid it. Without "
                    "page-locking copies run at a quarter of the speed: --allow-unpinned accepts that",
                    cause_of(result, "cudaHostRegister"));
}

CudaPinnedRegistration::~CudaPinnedRegistration() {
    log_unless_freed(cudaHostUnregister(start_), "cudaHostUnregister");
}

}  // namespace offramp
