#include "tests/support/made_up_gpu/made_up_gpu.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace {

using offramp::support::GpuFault;

constexpr int kOutOfMemory = 2, kInvalidHandle = 400, kNotReady = 600;
constexpr std::uintptr_t kLegacyStream = 1;
constexpr int kMemoryType = 2;
constexpr unsigned kHostMemory = 1;

struct Stream;

struct Event {
    std::uint64_t recorded = 0, done = 0;  // counts of records
    Stream* stream = nullptr;              // of the last record
};

struct Operation {
    // A copy, unless `event` is set: then a record, or a wait for another stream's.
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    std::size_t bytes = 0;
    std::shared_ptr<Event> event{};
    std::uint64_t record = 0;
    Stream* awaited = nullptr;
};

struct Stream {
    std::deque<Operation> work;
};

class Gpu final : public offramp::support::MadeUpGpu {
    template <class Work>
    auto locked(Work work) {
        const std::lock_guard lock(mutex_);
        return work();
    }

  public:
    // --- controls ---
    void fail(const GpuFault& fault) override {
        const std::lock_guard lock(mutex_);
        fault_ = fault;
        calls_ = 0;
    }
    void restart() override {
        const std::lock_guard lock(mutex_);
        fault_ = {};
        lost_ = stalled_ = false;
        faulty_function_.clear();
        violations_.clear();
        streams_.clear();
        events_.clear();
        ranges_.clear();
        streams_[kLegacyStream] = std::make_unique<Stream>();
    }
    void resume() override {
        {
            const std::lock_guard lock(mutex_);
            stalled_ = false;
            fault_ = {};
        }
        resumed_.notify_all();
    }
    std::string faulty_function() override {
        return locked([&] { return faulty_function_; });
    }
    bool is_lost() override {
        return locked([&] { return lost_; });
    }
    int waiting() override {
        return locked([&] { return waiting_; });
    }
    void compute(std::byte* to, const std::byte* from, std::size_t bytes) override {
        locked([&] {
            if (!lost_) streams_[kLegacyStream]->work.push_back({.to = to, .from = from, .bytes = bytes});
            return 0;
        });
    }
    bool uses(const std::byte* memory, std::size_t bytes) override {
        return locked([&] { return in_use(memory, bytes); });
    }
    int live_objects() override {
        return locked([&] { return static_cast<int>(streams_.size() - 1 + events_.size() + ranges_.size()); });
    }
    std::vector<std::string> violations() override {
        return locked([&] { return violations_; });
    }

    // --- the driver ---
    // Calls work(lock) unless the call fails.
    template <class Work>
    int call(const char* function, bool needs_context, Work work) {
        std::unique_lock lock(mutex_);
        if (needs_context && lost_) return fault_.error;
        const bool counts = fault_.function.empty() || fault_.function == function;
        if (counts) ++calls_;
        const bool again = fault_.kind == GpuFault::Kind::Function && faulty_function_ == function;
        if (!(counts && calls_ == fault_.at) && !again) return work(lock);
        faulty_function_ = function;
        if (fault_.kind == GpuFault::Kind::Stall) {
            stalled_ = true;
            return work(lock);
        }
        if (fault_.kind == GpuFault::Kind::Lost) {
            lost_ = true;
            for (auto& [handle, stream] : streams_) stream->work.clear();
            resumed_.notify_all();
        }
        return fault_.error;
    }

    std::uintptr_t make_stream() {
        streams_[++last_handle_] = std::make_unique<Stream>();
        return last_handle_;
    }
    std::uintptr_t make_event() {
        events_[++last_handle_] = std::make_shared<Event>();
        return last_handle_;
    }
    Stream* stream(std::uintptr_t handle) {
        const auto found = streams_.find(handle);
        if (found == streams_.end()) violations_.emplace_back("a stream was used that does not exist");
        return found == streams_.end() ? nullptr : found->second.get();
    }
    std::shared_ptr<Event> event(std::uintptr_t handle) {
        const auto found = events_.find(handle);
        if (found == events_.end()) violations_.emplace_back("an event was used that does not exist");
        return found == events_.end() ? nullptr : found->second;
    }
    void destroy_stream(std::uintptr_t handle) {
        Stream* const gone = stream(handle);
        if (gone == nullptr) return;
        if (!gone->work.empty()) violations_.emplace_back("a stream was destroyed before its work was done");
        streams_.erase(handle);
    }
    void destroy_event(std::uintptr_t handle) {
        if (event(handle)) events_.erase(handle);
    }
    void note_range(const void* start, std::size_t bytes) { ranges_[static_cast<const std::byte*>(start)] = bytes; }
    void forget_range(const void* start, const char* how) {
        const auto found = ranges_.find(static_cast<const std::byte*>(start));
        if (found == ranges_.end()) {
            violations_.push_back(std::string("unknown memory was ") + how);
            return;
        }
        if (in_use(found->first, found->second))
            violations_.push_back(std::string("memory of a running copy was ") + how);
        ranges_.erase(found);
    }
    bool is_known(const std::byte* address) const {
        const auto after = ranges_.upper_bound(address);
        return after != ranges_.begin() && address < std::prev(after)->first + std::prev(after)->second;
    }

    int record(const std::shared_ptr<Event>& event, Stream* stream) {
        if (!event || stream == nullptr) return kInvalidHandle;
        event->stream = stream;
        stream->work.push_back({.event = event, .record = ++event->recorded});
        return 0;
    }
    static int wait(Stream* stream, const std::shared_ptr<Event>& event) {
        if (!event || stream == nullptr) return kInvalidHandle;
        if (event->recorded > event->done)
            stream->work.push_back({.event = event, .record = event->recorded, .awaited = event->stream});
        return 0;
    }
    // Like each wait of the driver, it does the stream's work, if the GPU does any.
    int synchronize(std::unique_lock<std::mutex>& lock, const std::shared_ptr<Event>& event) {
        if (!event) return kInvalidHandle;
        const std::uint64_t record = event->recorded;
        if (event->done >= record || !go_on(lock)) return lost_ ? fault_.error : 0;
        run(*event->stream, [&] { return event->done >= record; });
        return 0;
    }
    int synchronize(std::unique_lock<std::mutex>& lock, Stream* stream) {
        if (stream == nullptr) return kInvalidHandle;
        if (!go_on(lock)) return fault_.error;
        run(*stream, [] { return false; });
        return 0;
    }
    // Each query lets the GPU do one piece of work.
    int query(const std::shared_ptr<Event>& event) {
        if (!event) return kInvalidHandle;
        if (event->done >= event->recorded) return 0;
        if (!stalled_) step(*event->stream);
        return kNotReady;
    }

  private:
    // False: the context was lost meanwhile.
    bool go_on(std::unique_lock<std::mutex>& lock) {
        ++waiting_;
        resumed_.wait(lock, [&] { return !stalled_ || lost_; });
        --waiting_;
        return !lost_;
    }

    template <class Enough>
    static void run(Stream& stream, Enough enough) {
        while (!enough() && !stream.work.empty()) step(stream);
    }
    static void step(Stream& stream) {
        if (stream.work.empty()) return;
        const Operation next = stream.work.front();
        if (next.awaited != nullptr) run(*next.awaited, [&] { return next.event->done >= next.record; });
        stream.work.pop_front();
        if (!next.event)
            std::memcpy(next.to, next.from, next.bytes);
        else if (next.awaited == nullptr)
            next.event->done = std::max(next.event->done, next.record);
    }
    bool in_use(const std::byte* memory, std::size_t bytes) const {
        const auto overlaps = [&](const std::byte* start, std::size_t size) {
            return start < memory + bytes && memory < start + size;
        };
        return std::ranges::any_of(streams_, [&](const auto& entry) {
            return std::ranges::any_of(entry.second->work, [&](const Operation& operation) {
                return overlaps(operation.to, operation.bytes) || overlaps(operation.from, operation.bytes);
            });
        });
    }

    std::mutex mutex_;
    std::condition_variable resumed_;
    GpuFault fault_;
    int calls_ = 0, waiting_ = 0;
    bool lost_ = false, stalled_ = false;
    std::string faulty_function_;
    std::vector<std::string> violations_;
    std::uintptr_t last_handle_ = 100;
    std::map<std::uintptr_t, std::unique_ptr<Stream>> streams_;
    std::map<std::uintptr_t, std::shared_ptr<Event>> events_;
    std::map<const std::byte*, std::size_t> ranges_;  // page-locked or allocated
};

Gpu& gpu() {
    static Gpu* const only = [] {
        auto* const made = new Gpu;  // never destroyed: threads may still call it at exit
        made->restart();
        return made;
    }();
    return *only;
}

// The functions of the driver that the library calls (producer/device/driver_api.hpp), as CUDA 13 has them.
using Handle = std::uintptr_t;

const std::map<std::string, void*>& functions();

template <class Work>
int simple(const char* function, bool needs_context, Work work) {
    return gpu().call(function, needs_context, [&](auto&) { return work(), 0; });
}

int init(unsigned) {
    return simple("cuInit", false, [] {});
}
int version(int* value) { return *value = 13000, 0; }
int error_name(int error, const char** text) {
    thread_local std::string name;
    name = "CUDA_ERROR_MADE_UP_" + std::to_string(error);
    return *text = name.c_str(), 0;
}
int error_string(int, const char** text) { return *text = "a made-up error", 0; }
int device_count(int* count) {
    return simple("cuDeviceGetCount", false, [&] { *count = 1; });
}
int device_get(int* device, int) {
    return simple("cuDeviceGet", false, [&] { *device = 0; });
}
int device_name(char* name, int length, int) {
    return simple("cuDeviceGetName", false,
                  [&] { std::snprintf(name, static_cast<std::size_t>(length), "Made-up GPU"); });
}
int device_uuid(void* uuid, int) {
    return simple("cuDeviceGetUuid", false, [&] { std::memset(uuid, 7, 16); });
}
int device_attribute(int* value, int, int) {
    return simple("cuDeviceGetAttribute", false, [&] { *value = 9; });
}
int device_pci_bus_id(char* address, int length, int) {
    return simple("cuDeviceGetPCIBusId", false,
                  [&] { std::snprintf(address, static_cast<std::size_t>(length), "FFFF:1B:00.0"); });
}
int context_retain(Handle* context, int) {
    return simple("cuDevicePrimaryCtxRetain", true, [&] { *context = 1; });
}
int context_set_current(Handle) {
    return simple("cuCtxSetCurrent", false, [] {});
}
int context_push(Handle) {
    return simple("cuCtxPushCurrent", false, [] {});
}
int context_pop(Handle* context) {
    return simple("cuCtxPopCurrent", false, [&] { *context = 1; });
}
int exchange_capture_mode(int*) {
    return simple("cuThreadExchangeStreamCaptureMode", false, [] {});
}
int memory_info(std::size_t* free, std::size_t* total) {
    return simple("cuMemGetInfo", true, [&] { *free = *total = std::size_t{1} << 34; });
}
int allocate(const char* function, void** memory, std::size_t bytes) {
    return gpu().call(function, true, [&](auto&) {
        *memory = std::malloc(bytes);
        if (*memory == nullptr) return kOutOfMemory;
        gpu().note_range(*memory, bytes);
        return 0;
    });
}
int release(const char* function, void* memory) {
    return simple(function, true, [&] {
        gpu().forget_range(memory, "freed");
        std::free(memory);
    });
}
int memory_allocate(void** memory, std::size_t bytes) { return allocate("cuMemAlloc", memory, bytes); }
int memory_free(void* memory) { return release("cuMemFree", memory); }
int host_allocate(void** memory, std::size_t bytes, unsigned) { return allocate("cuMemHostAlloc", memory, bytes); }
int host_free(void* memory) { return release("cuMemFreeHost", memory); }
int host_register(void* memory, std::size_t bytes, unsigned) {
    return simple("cuMemHostRegister", true, [&] { gpu().note_range(memory, bytes); });
}
int host_unregister(void* memory) {
    return simple("cuMemHostUnregister", true, [&] { gpu().forget_range(memory, "unregistered"); });
}
int pointer_get_attributes(unsigned count, const int* attributes, void** values, const std::byte* pointer) {
    return simple("cuPointerGetAttributes", true, [&] {
        for (unsigned i = 0; i < count; ++i)
            if (attributes[i] == kMemoryType)
                *static_cast<unsigned*>(values[i]) = gpu().is_known(pointer) ? kHostMemory : 0;
    });
}
int copy(const char* function, std::byte* to, const std::byte* from, std::size_t bytes, Handle stream) {
    return gpu().call(function, true, [&](auto&) {
        auto* const used = gpu().stream(stream);
        if (used == nullptr) return kInvalidHandle;
        used->work.push_back({.to = to, .from = from, .bytes = bytes});
        return 0;
    });
}
int copy_to_host(std::byte* to, const std::byte* from, std::size_t bytes, Handle stream) {
    return copy("cuMemcpyDtoHAsync", to, from, bytes, stream);
}
int copy_to_device(std::byte* to, const std::byte* from, std::size_t bytes, Handle stream) {
    return copy("cuMemcpyHtoDAsync", to, from, bytes, stream);
}
int copy_batch(std::byte** to, const std::byte** from, const std::size_t* bytes, std::size_t count, void*, void*,
               std::size_t, Handle stream) {
    return gpu().call("cuMemcpyBatchAsync", true, [&](auto&) {
        auto* const used = gpu().stream(stream);
        if (used == nullptr) return kInvalidHandle;
        for (std::size_t i = 0; i < count; ++i) used->work.push_back({.to = to[i], .from = from[i], .bytes = bytes[i]});
        return 0;
    });
}
int stream_create(Handle* stream, unsigned, int) {
    return simple("cuStreamCreateWithPriority", true, [&] { *stream = gpu().make_stream(); });
}
int stream_destroy(Handle stream) {
    return simple("cuStreamDestroy", true, [&] { gpu().destroy_stream(stream); });
}
int stream_synchronize(Handle stream) {
    return gpu().call("cuStreamSynchronize", true,
                      [&](auto& lock) { return gpu().synchronize(lock, gpu().stream(stream)); });
}
int stream_wait_event(Handle stream, Handle event, unsigned) {
    return gpu().call("cuStreamWaitEvent", true,
                      [&](auto&) { return Gpu::wait(gpu().stream(stream), gpu().event(event)); });
}
int stream_is_capturing(Handle, int* status) {
    return simple("cuStreamIsCapturing", true, [&] { *status = 0; });
}
int launch_host_function(Handle, void (*)(void*), void*) { return kInvalidHandle; }  // the egress does not call it
int event_create(Handle* event, unsigned) {
    return simple("cuEventCreate", true, [&] { *event = gpu().make_event(); });
}
int event_destroy(Handle event) {
    return simple("cuEventDestroy", true, [&] { gpu().destroy_event(event); });
}
int event_record(Handle event, Handle stream) {
    return gpu().call("cuEventRecord", true,
                      [&](auto&) { return gpu().record(gpu().event(event), gpu().stream(stream)); });
}
int event_query(Handle event) {
    return gpu().call("cuEventQuery", true, [&](auto&) { return gpu().query(gpu().event(event)); });
}
int event_synchronize(Handle event) {
    return gpu().call("cuEventSynchronize", true,
                      [&](auto& lock) { return gpu().synchronize(lock, gpu().event(event)); });
}
int event_elapsed_time(float* milliseconds, Handle, Handle) {
    return simple("cuEventElapsedTime", true, [&] { *milliseconds = 1; });
}

template <class Function>
void* address(Function* function) {
    return reinterpret_cast<void*>(function);
}

const std::map<std::string, void*>& functions() {
    static const std::map<std::string, void*> all{{"cuInit", address(init)},
                                                  {"cuDriverGetVersion", address(version)},
                                                  {"cuGetErrorName", address(error_name)},
                                                  {"cuGetErrorString", address(error_string)},
                                                  {"cuDeviceGetCount", address(device_count)},
                                                  {"cuDeviceGet", address(device_get)},
                                                  {"cuDeviceGetName", address(device_name)},
                                                  {"cuDeviceGetUuid", address(device_uuid)},
                                                  {"cuDeviceGetAttribute", address(device_attribute)},
                                                  {"cuDeviceGetPCIBusId", address(device_pci_bus_id)},
                                                  {"cuDevicePrimaryCtxRetain", address(context_retain)},
                                                  {"cuCtxSetCurrent", address(context_set_current)},
                                                  {"cuCtxPushCurrent", address(context_push)},
                                                  {"cuCtxPopCurrent", address(context_pop)},
                                                  {"cuThreadExchangeStreamCaptureMode", address(exchange_capture_mode)},
                                                  {"cuMemGetInfo", address(memory_info)},
                                                  {"cuMemAlloc", address(memory_allocate)},
                                                  {"cuMemFree", address(memory_free)},
                                                  {"cuMemHostAlloc", address(host_allocate)},
                                                  {"cuMemFreeHost", address(host_free)},
                                                  {"cuMemHostRegister", address(host_register)},
                                                  {"cuMemHostUnregister", address(host_unregister)},
                                                  {"cuPointerGetAttributes", address(pointer_get_attributes)},
                                                  {"cuMemcpyDtoHAsync", address(copy_to_host)},
                                                  {"cuMemcpyHtoDAsync", address(copy_to_device)},
                                                  {"cuMemcpyBatchAsync", address(copy_batch)},
                                                  {"cuStreamCreateWithPriority", address(stream_create)},
                                                  {"cuStreamDestroy", address(stream_destroy)},
                                                  {"cuStreamSynchronize", address(stream_synchronize)},
                                                  {"cuStreamWaitEvent", address(stream_wait_event)},
                                                  {"cuStreamIsCapturing", address(stream_is_capturing)},
                                                  {"cuLaunchHostFunc", address(launch_host_function)},
                                                  {"cuEventCreate", address(event_create)},
                                                  {"cuEventDestroy", address(event_destroy)},
                                                  {"cuEventRecord", address(event_record)},
                                                  {"cuEventQuery", address(event_query)},
                                                  {"cuEventSynchronize", address(event_synchronize)},
                                                  {"cuEventElapsedTime", address(event_elapsed_time)}};
    return all;
}

}  // namespace

#pragma GCC visibility push(default)
// NOLINTBEGIN(readability-identifier-naming): the names are libcuda's
extern "C" {

int cuDriverGetVersion(int* value) { return version(value); }

int cuGetProcAddress_v2(const char* wanted, void** function, int, unsigned long long, int*) {
    const auto found = functions().find(wanted);
    *function = found == functions().end() ? nullptr : found->second;
    return *function == nullptr ? 500 : 0;
}

// Of no context: any memory is device 0's.
int cuPointerGetAttribute(int* value, int, std::uintptr_t) {
    *value = 0;
    return 0;
}

offramp::support::MadeUpGpu* made_up_gpu() { return &gpu(); }

// For tests in Python. The number of a kind is that of GpuFault::Kind.
void made_up_gpu_restart() { gpu().restart(); }
void made_up_gpu_fail(int at, int error, int kind, const char* function) {
    gpu().fail({.at = at, .error = error, .kind = static_cast<GpuFault::Kind>(kind), .function = function});
}
const char* made_up_gpu_faulty_function() {
    static std::string function;
    function = gpu().faulty_function();
    return function.c_str();
}
// NOLINTEND(readability-identifier-naming)

}  // extern "C"
#pragma GCC visibility pop
