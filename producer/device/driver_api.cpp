#include "producer/device/driver_api.hpp"

#include <dlfcn.h>

#include "common/base/error.hpp"

namespace offramp::driver {
namespace {

constexpr const char* kFile = "libcuda.so.1";
constexpr unsigned long long kLegacyStreams = 1;  // CU_GET_PROC_ADDRESS_LEGACY_STREAM

// Looks up functions by name and version, since CUDA 12: a name's meaning changed between versions.
using GetAddress = Result (*)(const char* name, void** function, int version, unsigned long long flags, int* status);

class Loader {
  public:
    explicit Loader(GetAddress get_address) : get_address_(get_address) {}

    template <class Function>
    void load(Function*& function, const char* name) {
        if (!load_if_present(function, name, kNeededVersion) && missing_.empty()) missing_ = name;
    }

    template <class Function>
    bool load_if_present(Function*& function, const char* name, int version) {
        void* found = nullptr;
        if (get_address_(name, &found, version, kLegacyStreams, nullptr) != kSuccess || found == nullptr) return false;
        function = reinterpret_cast<Function*>(found);
        return true;
    }

    const std::string& missing() const { return missing_; }

  private:
    GetAddress get_address_;
    std::string missing_;
};

std::string load_all(Api& api, GetAddress get_address) {
    Loader loader(get_address);
    loader.load(api.init, "cuInit");
    loader.load(api.driver_get_version, "cuDriverGetVersion");
    loader.load(api.get_error_name, "cuGetErrorName");
    loader.load(api.get_error_string, "cuGetErrorString");
    loader.load(api.device_get_count, "cuDeviceGetCount");
    loader.load(api.device_get, "cuDeviceGet");
    loader.load(api.device_get_name, "cuDeviceGetName");
    loader.load(api.device_get_uuid, "cuDeviceGetUuid");
    loader.load(api.device_get_attribute, "cuDeviceGetAttribute");
    loader.load(api.device_get_pci_bus_id, "cuDeviceGetPCIBusId");
    loader.load(api.primary_context_retain, "cuDevicePrimaryCtxRetain");
    loader.load(api.context_set_current, "cuCtxSetCurrent");
    loader.load(api.context_push, "cuCtxPushCurrent");
    loader.load(api.context_pop, "cuCtxPopCurrent");
    loader.load(api.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
    loader.load(api.memory_info, "cuMemGetInfo");
    loader.load(api.memory_allocate, "cuMemAlloc");
    loader.load(api.memory_free, "cuMemFree");
    loader.load(api.host_allocate, "cuMemHostAlloc");
    loader.load(api.host_free, "cuMemFreeHost");
    loader.load(api.host_register, "cuMemHostRegister");
    loader.load(api.host_unregister, "cuMemHostUnregister");
    loader.load(api.pointer_get_attributes, "cuPointerGetAttributes");
    loader.load(api.copy_to_host, "cuMemcpyDtoHAsync");
    loader.load(api.copy_to_device, "cuMemcpyHtoDAsync");
    loader.load(api.stream_create, "cuStreamCreateWithPriority");
    loader.load(api.stream_destroy, "cuStreamDestroy");
    loader.load(api.stream_synchronize, "cuStreamSynchronize");
    loader.load(api.stream_wait_event, "cuStreamWaitEvent");
    loader.load(api.stream_is_capturing, "cuStreamIsCapturing");
    loader.load(api.launch_host_function, "cuLaunchHostFunc");
    loader.load(api.event_create, "cuEventCreate");
    loader.load(api.event_destroy, "cuEventDestroy");
    loader.load(api.event_record, "cuEventRecord");
    loader.load(api.event_query, "cuEventQuery");
    loader.load(api.event_synchronize, "cuEventSynchronize");
    loader.load(api.event_elapsed_time, "cuEventElapsedTime");
    loader.load_if_present(api.copy_batch, "cuMemcpyBatchAsync", kBatchedCopiesVersion);
    return loader.missing();
}

Library open_library() {
    Library library;
    void* const file = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
    if (file == nullptr) {
        const char* const error = ::dlerror();
        const std::string loader_error = error == nullptr ? "" : error;
        // If the file is missing, the caller explains what is needed.
        library.installed = loader_error.find("No such file") == std::string::npos;
        if (library.installed) library.obstacle = "the NVIDIA driver cannot be opened: " + loader_error;
        return library;
    }
    library.installed = true;
    // The oldest drivers also have this one.
    const auto get_version = reinterpret_cast<decltype(Api::driver_get_version)>(::dlsym(file, "cuDriverGetVersion"));
    if (get_version != nullptr && get_version(&library.version) != kSuccess) library.version = 0;
    if (library.version < kNeededVersion) {
        if (library.version == 0)
            library.obstacle = std::string("the NVIDIA driver (") + kFile + ") does not report its version";
        return library;
    }
    const auto get_address = reinterpret_cast<GetAddress>(::dlsym(file, "cuGetProcAddress_v2"));
    const std::string missing = get_address == nullptr ? "cuGetProcAddress_v2" : load_all(library.api, get_address);
    library.complete = missing.empty();
    if (!library.complete)
        library.obstacle = std::string("the NVIDIA driver (") + kFile + ") has no function " + missing;
    return library;
}

}  // namespace

const Library& library() {
    static const Library once = open_library();
    return once;
}

const Api& api() {
    expect(library().complete, "CUDA is called only after a GPU was found");
    return library().api;
}

}  // namespace offramp::driver
