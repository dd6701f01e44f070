#include "producer/device/cuda_memory.hpp"

#include "common/base/remedy.hpp"
#include "producer/device/check.hpp"
#include "producer/device/context_guard.hpp"
#include "producer/device/host_memory.hpp"

namespace offramp {

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
