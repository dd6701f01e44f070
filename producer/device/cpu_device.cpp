#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "common/base/remedy.hpp"
#include "producer/device/cpu_stream.hpp"
#include "producer/device/cuda_failure.hpp"
#include "producer/device/device.hpp"
#include "producer/device/host_memory.hpp"

namespace offramp {
namespace {

// Ordinary memory, page-aligned like CUDA's: code written for one alignment also runs on the other device.
class CpuBuffer final : public DeviceBuffer {
  public:
    CpuBuffer(std::size_t bytes, const std::string& purpose) : bytes_(bytes) {
        expect(bytes > 0, "a buffer has at least one byte");
        // Refuse more than the machine has: the kernel would grant it and kill the process later.
        const std::size_t total = total_host_memory();
        if (total == 0 || bytes <= total) memory_.reset(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage));
        if (!memory_) {
            throw CudaError(ErrorKind::DeviceOutOfMemory,
                            "Out of memory for " + purpose + ": needed " + byte_count(bytes) + ", free " +
                                byte_count(free_host_memory()) + " of " + byte_count(total),
                            remedy(Remedy::SmallerBatches));
        }
    }
    std::byte* data() const override { return static_cast<std::byte*>(memory_.get()); }
    std::size_t bytes() const override { return bytes_; }

  private:
    static constexpr std::size_t kPage = 4096;
    struct Free {
        void operator()(void* memory) const noexcept { std::free(memory); }
    };
    std::size_t bytes_;
    std::unique_ptr<void, Free> memory_;
};

// Without a copy engine, nothing needs locking.
class CpuRegistration final : public PinnedRegistration {};

std::string processor_name() {
    std::ifstream cpuinfo("/proc/cpuinfo");
    for (std::string line; std::getline(cpuinfo, line);) {
        const std::size_t colon = line.find(':');
        if (line.starts_with("model name") && colon != std::string::npos && colon + 2 <= line.size())
            return line.substr(colon + 2);
    }
    return "unknown CPU";
}

// The CPU backend: streams are threads, device memory is host memory.
class CpuDevice final : public Device {
  public:
    DeviceInfo info() const override {
        DeviceInfo info;
        info.kind = "cpu";
        info.name = processor_name();
        info.total_bytes = total_host_memory();
        info.free_bytes = free_host_memory();
        return info;
    }
    bool is_gpu() const override { return false; }
    void use_on_this_thread() override {}
    std::unique_ptr<Stream> make_stream(const std::string& name, Priority) override {
        return std::make_unique<CpuStream>(name);
    }
    std::unique_ptr<Stream> borrow_stream(void* native) override {
        expect(native == nullptr, "the CPU is given no stream of a GPU");
        return std::make_unique<CpuStreamView>();
    }
    std::unique_ptr<Event> make_event(Timing timing) override { return std::make_unique<CpuEvent>(timing); }
    std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, const std::string& purpose) override {
        return std::make_unique<CpuBuffer>(bytes, purpose);
    }
    std::unique_ptr<DeviceBuffer> allocate_pinned_host(std::size_t bytes, const std::string& purpose) override {
        return std::make_unique<CpuBuffer>(bytes, purpose);
    }
    std::unique_ptr<PinnedRegistration> pin(std::span<std::byte> range) override {
        expect_pinnable(range);
        return std::make_unique<CpuRegistration>();
    }

    PinningProof prove_pinned(std::span<std::byte> range) override {
        return {.registered = false, .gigabytes_per_second = timed_copy_into(*this, range)};
    }
};

}  // namespace

std::unique_ptr<Device> open_cpu_device() { return std::make_unique<CpuDevice>(); }

}  // namespace offramp
