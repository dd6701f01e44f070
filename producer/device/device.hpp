#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

// What a producer needs of a GPU: streams, events, memory, page-locking. Two implementations under one contract suite
// (tests/contract/device/device_contract.hpp): CUDA's driver, which is opened when it is asked for, and one on the
// CPU whose streams are threads, so that everything but the copy engine is the same code on a machine without a GPU.
namespace offramp {

class Stream;

// Marks a point in a stream's work. Armed by Stream::record; an event that was never armed is a caller's bug
// to wait for (a CUDA event that was never recorded reads as done). May be armed again after it was seen
// done. Thread: one at a time. Blocks: wait() sleeps, it does not spin. Errors: CudaError from either.
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

// Runs work in the order it was given. Thread: one at a time. Blocks: synchronize() only.
class Stream {
  public:
    virtual ~Stream() = default;
    // Copies `bytes` bytes; host memory must be page-locked for the copy to be asynchronous. The caller keeps
    // both sides alive until an event recorded afterwards is done.
    virtual void copy_to_host(std::byte* to, const void* from, std::size_t bytes) = 0;
    virtual void copy_to_device(void* to, const std::byte* from, std::size_t bytes) = 0;
    // Runs `work` on a thread of the device's, in the order of this stream, which stands still meanwhile: on a GPU for
    // about 100 µs at least. It calls nothing of a device and throws nothing; after an error of the stream it may never
    // be run.
    virtual void run_on_host(std::function<void()> work) = 0;
    virtual void record(Event& event) = 0;
    // Work given to this stream from now on starts after `event`, which is armed.
    virtual void wait_for(Event& event) = 0;
    virtual void synchronize() = 0;
    // CUstream, which is a cudaStream_t, or null on the CPU: for who submits work of its own.
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

// What a device is, for logs, doctor and summaries.
struct DeviceInfo {
    std::string kind;  // "cuda" or "cpu"
    std::string name;  // "NVIDIA H200"; the CPU's model name
    int index = 0;
    std::size_t total_bytes = 0;
    std::size_t free_bytes = 0;
    int compute_major = 0, compute_minor = 0;
    int driver_version = 0;                   // 13000 is 13.0
    int runtime_version = 0;                  // of the CUDA runtime beside it, as open_device() was told
    std::string uuid;                         // "GPU-5c2f…", as nvidia-smi has it; empty on the CPU
    std::string pci_address;                  // "0000:01:00.0"; empty on the CPU
    int pcie_generation = 0, pcie_width = 0;  // 0: unknown
    int numa_node = -1;

    // For pages about a run: "cpu", or the GPU's name.
    const std::string& word() const { return kind == "cpu" ? kind : name; }
};

// Whether CUDA itself says that copies from and to a range run at full speed and asynchronously.
struct PinningProof {
    bool registered = false;          // pointer attributes: page-locked host memory
    double gigabytes_per_second = 0;  // of a timed copy from the device into the range
};

// A GPU, or the CPU backend. Its CUDA context is the primary one, that of the CUDA runtime and of PyTorch. Thread: any;
// each thread that uses a device's parts calls use_on_this_thread() once. What makes parts, and their destructors, need
// it not and leave the thread's context alone. Errors: CudaError, with DeviceUnsupported, DeviceOutOfMemory or
// DeviceBroken as its kind; Internal when a call of ours was wrong.
class Device {
  public:
    virtual ~Device() = default;
    virtual DeviceInfo info() const = 0;
    virtual bool is_gpu() const = 0;
    // The device is the calling thread's from now on, and the thread's calls do not disturb those who capture a CUDA
    // graph: for threads of one's own, not for a caller's.
    virtual void use_on_this_thread() = 0;
    virtual std::unique_ptr<Stream> make_stream(const std::string& name) = 0;
    // A caller's own stream, which stays the caller's and outlives what is given back: `native` is a CUstream or
    // cudaStream_t of this GPU's primary context, null its legacy default stream (who compiles with a default stream
    // per thread gives cudaStreamPerThread); on the CPU null, for work that is done when it was asked for. For any
    // thread: the thread's own context stays current. Errors of what it is asked for: CudaError Internal while the
    // caller captures it into a CUDA graph, whose capture goes on.
    virtual std::unique_ptr<Stream> borrow_stream(void* native) = 0;
    enum class Timing { Off, On };
    virtual std::unique_ptr<Event> make_event(Timing timing = Timing::Off) = 0;
    // Errors: CudaError DeviceOutOfMemory with needed and free bytes and what it was for.
    virtual std::unique_ptr<DeviceBuffer> allocate(std::size_t bytes, const std::string& purpose) = 0;
    virtual std::unique_ptr<DeviceBuffer> allocate_pinned_host(std::size_t bytes, const std::string& purpose) = 0;
    // Page-locks host memory that is mapped and populated already. At most 64 GiB a call.
    virtual std::unique_ptr<PinnedRegistration> pin(std::span<std::byte> range) = 0;
    // Copies the range out and back in: its bytes stay what they are, also for who reads them meanwhile (a slab taken
    // over).
    virtual PinningProof prove_pinned(std::span<std::byte> range) = 0;
};

// `which`: "auto" (the first GPU, or the CPU), "cpu", "cuda", "cuda:N". `runtime_version`: as of find_gpus(). Errors:
// CudaError DeviceUnsupported when a GPU is asked for and there is none, or the driver is too old (found, needed);
// ConfigError for any other word.
std::unique_ptr<Device> open_device(const std::string& which, int runtime_version = 0);
std::unique_ptr<Device> open_cpu_device();

}  // namespace offramp
