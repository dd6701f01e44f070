#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/wire/tensor_spec.hpp"

// A producer's view of a GPU: streams, events, memory, page-locking. Two implementations share one contract suite
// (tests/contract/device/device_contract.hpp). One uses CUDA's driver, opened on demand. The other runs on the CPU,
// with threads as streams: a machine without a GPU runs the same code except for the copy engine.
namespace offramp {

class Stream;

// Marks a point in a stream's work. Armed by Stream::record; waiting for an event that was never armed is a caller's
// bug (a CUDA event that was never recorded reads as done). It may be armed again after it was seen done. Thread: one
// at a time. Blocks: wait() sleeps, it does not spin. Errors: CudaError from either.
class Event {
  public:
    virtual ~Event() = default;
    virtual bool armed() const = 0;
    virtual bool done() = 0;  // false while unarmed
    virtual void wait() = 0;
    // Seconds on the device between two armed, done events that were made with timing. 0 on the CPU backend's
    // own clock is allowed.
    virtual double seconds_since(Event& earlier) = 0;
};

// Runs work in the order of submission. Thread: one at a time. Blocks: synchronize() only.
class Stream {
  public:
    virtual ~Stream() = default;
    // Copies `bytes` bytes; host memory must be page-locked for the copy to be asynchronous. The caller keeps
    // both sides alive until an event recorded afterwards is done.
    virtual void copy_to_host(std::byte* to, const void* from, std::size_t bytes) = 0;
    virtual void copy_to_device(void* to, const std::byte* from, std::size_t bytes) = 0;
    // The same for several copies of at least one byte, in any order among them.
    struct HostCopy {
        std::byte* to = nullptr;
        const void* from = nullptr;
        std::size_t bytes = 0;
    };
    virtual void copy_all_to_host(std::span<const HostCopy> copies) {
        for (const HostCopy& copy : copies) copy_to_host(copy.to, copy.from, copy.bytes);
    }
    // Runs `work` on one of the device's threads, in this stream's order; the stream waits meanwhile, on a GPU for at
    // least 100 µs. `work` makes no device calls and does not throw. After an error of the stream it may never run.
    virtual void run_on_host(std::function<void()> work) = 0;
    virtual void record(Event& event) = 0;
    // Work submitted to this stream from now on starts after `event`, which is armed.
    virtual void wait_for(Event& event) = 0;
    virtual void synchronize() = 0;
    // CUstream, which is a cudaStream_t, or null on the CPU: for a caller that submits its own work.
    virtual void* native() const = 0;
};

// Owns a block of memory of a device, or page-locked host memory for its copies.
class DeviceBuffer {
  public:
    virtual ~DeviceBuffer() = default;
    virtual std::byte* data() const = 0;
    virtual std::size_t bytes() const = 0;
};

// Owns the page-locking of one range of host memory. The destructor unlocks it; it must go before the range
// is unmapped.
class PinnedRegistration {
  public:
    virtual ~PinnedRegistration() = default;
};

// A description of the device, for logs, doctor and summaries.
struct DeviceInfo {
    std::string kind;  // "cuda" or "cpu"
    std::string name;  // "NVIDIA H200"; the CPU's model name
    int index = 0;
    std::size_t total_bytes = 0;
    std::size_t free_bytes = 0;
    int compute_major = 0, compute_minor = 0;
    int driver_version = 0;                   // 13000 is 13.0
    int runtime_version = 0;                  // of the CUDA runtime beside it, the argument of open_device()
    std::string uuid;                         // "GPU-5c2f…", as in nvidia-smi; empty on the CPU
    std::string pci_address;                  // "0000:01:00.0"; empty on the CPU
    int pcie_generation = 0, pcie_width = 0;  // 0: unknown
    int numa_node = -1;

    // For pages about a run: "cpu", or the GPU's name.
    const std::string& word() const { return kind == "cpu" ? kind : name; }
};

// CUDA's evidence that copies from and to a range run at full speed and asynchronously.
struct PinningProof {
    bool registered = false;          // pointer attributes: page-locked host memory
    double gigabytes_per_second = 0;  // of a timed copy from the device into the range
};

// A GPU, or the CPU backend. Its CUDA context is the primary one, shared with the CUDA runtime and PyTorch. Thread:
// any; each thread that uses a device's parts calls use_on_this_thread() once. Functions that make parts, and the
// parts' destructors, do not need it and keep the thread's context. Errors: CudaError, with DeviceUnsupported,
// DeviceOutOfMemory or DeviceBroken as its kind; Internal for a wrong call in this library.
class Device {
  public:
    virtual ~Device() = default;
    virtual DeviceInfo info() const = 0;
    virtual bool is_gpu() const = 0;
    // Makes the device the calling thread's, and keeps its calls from disturbing threads that capture a CUDA graph. For
    // the library's own threads, not for a caller's.
    virtual void use_on_this_thread() = 0;
    // First: its kernels start before waiting ones of other streams. For short work that others wait for.
    enum class Priority { Normal, First };
    virtual std::unique_ptr<Stream> make_stream(const std::string& name, Priority priority = Priority::Normal) = 0;
    // A view of a caller's stream, which the caller keeps and which outlives the view. `native` is a CUstream or
    // cudaStream_t of this GPU's primary context; null is its legacy default stream (code compiled with a default
    // stream per thread passes cudaStreamPerThread). On the CPU it is null: work is done on submission. For any thread:
    // the thread's own context stays current. Errors of the view: CudaError Internal while the caller captures the
    // stream into a CUDA graph; the capture continues.
    virtual std::unique_ptr<Stream> borrow_stream(void* native) = 0;
    enum class Timing { Off, On };
    virtual std::unique_ptr<Event> make_event(Timing timing = Timing::Off) = 0;
    // Errors: CudaError DeviceOutOfMemory with needed and free bytes and the purpose.
    virtual std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, const std::string& purpose) = 0;
    virtual std::unique_ptr<DeviceBuffer> allocate_pinned_host(std::size_t bytes, const std::string& purpose) = 0;
    // Page-locks host memory that is mapped and populated already. At most 64 GiB per call.
    virtual std::unique_ptr<PinnedRegistration> pin(std::span<std::byte> range) = 0;
    // Copies the range out and back in: its bytes stay the same, also for concurrent readers (of a slab taken over).
    virtual PinningProof prove_pinned(std::span<std::byte> range) = 0;
};

// `which`: "auto" (the first GPU, or the CPU), "cpu", "cuda", "cuda:N". `runtime_version`: as of find_gpus(). Errors:
// CudaError DeviceUnsupported when a GPU is requested and there is none, or the driver is too old (found, needed), or
// for "auto" if the installed driver is unusable; ConfigError for any other word.
std::unique_ptr<Device> open_device(const std::string& which, int runtime_version = 0);
std::unique_ptr<Device> open_cpu_device();

// A tensor on the device, finished or still being computed. Any model loop can pass one to the egress. `data` is read
// on the egress stream after the event that the caller records on the producing stream; `owner` keeps the memory alive
// until the copy's event has been seen done, and is then dropped.
struct DeviceTensor {
    TensorSpec spec;
    const void* data = nullptr;  // of a tensor that varies: set only if its samples follow one another from here
    std::shared_ptr<const void> owner;

    // Of a tensor that varies: its samples, row-major, and their extents in the varying dimensions.
    struct Sample {
        const std::byte* data = nullptr;
        std::size_t bytes = 0;
    };
    std::vector<Sample> samples{};
    std::vector<std::int64_t> extents{};
    std::size_t padding_bytes = 0;  // held on the device besides the samples
};

}  // namespace offramp
