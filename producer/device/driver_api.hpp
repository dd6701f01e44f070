#pragma once

#include <cstddef>
#include <string>

// The part of NVIDIA's driver API (cuda.h) that this library calls, declared here. The driver is opened at run time:
// building needs neither a toolkit nor its headers. tests/contract/device/driver_declarations_test.cpp compares each
// line with the real cuda.h.
struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUuuid_st;              // NOLINT(readability-identifier-naming): NVIDIA's name; 16 bytes
struct CUmemcpyAttributes_st;  // NOLINT(readability-identifier-naming): NVIDIA's name; driver::CopyAttributes

namespace offramp::driver {

using Result = int;                  // CUresult
using DeviceNumber = int;            // CUdevice
using Address = unsigned long long;  // CUdeviceptr
using Context = CUctx_st*;
using StreamHandle = CUstream_st*;  // a cudaStream_t is the same
using EventHandle = CUevent_st*;
using HostFunction = void (*)(void*);

inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;
inline constexpr Result kDeinitialized = 4;
inline constexpr Result kNoDevice = 100;
inline constexpr Result kNotReady = 600;
inline constexpr Result kCaptureUnsupported = 900;
inline constexpr Result kCaptureImplicit = 906;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventBlockingSync = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kHostAllocPortable = 1;
inline constexpr unsigned kHostRegisterPortable = 1;
inline constexpr int kComputeMajor = 75, kComputeMinor = 76;  // CUdevice_attribute
inline constexpr int kMemoryType = 2;                         // CUpointer_attribute
inline constexpr unsigned kMemoryTypeHost = 1;
inline constexpr int kCaptureRelaxed = 2;                                          // CUstreamCaptureMode
inline constexpr int kCaptureNone = 0;                                             // CUstreamCaptureStatus
inline const auto kLegacyStream = reinterpret_cast<StreamHandle>(std::size_t{1});  // CU_STREAM_LEGACY

// CUmemcpyAttributes.
struct CopyAttributes {
    int source_order = 1;  // CU_MEMCPY_SRC_ACCESS_ORDER_STREAM: the sources are read in the stream's order
    struct Location {
        int type = 0, id = 0;
    } source, destination;  // hints for managed memory
    unsigned flags = 0;
};

// Minimum driver version; an older driver is asked only for its version.
inline constexpr int kNeededVersion = 12000;
inline constexpr int kBatchedCopiesVersion = 13000;

// As of CUDA 12.0, with the legacy stream as the null stream.
struct Api {
    Result (*init)(unsigned flags);
    Result (*driver_get_version)(int* version);
    Result (*get_error_name)(Result error, const char** name);
    Result (*get_error_string)(Result error, const char** text);
    Result (*device_get_count)(int* count);
    Result (*device_get)(DeviceNumber* device, int ordinal);
    Result (*device_get_name)(char* name, int length, DeviceNumber device);
    Result (*device_get_uuid)(CUuuid_st* uuid, DeviceNumber device);
    Result (*device_get_attribute)(int* value, int attribute, DeviceNumber device);
    Result (*device_get_pci_bus_id)(char* address, int length, DeviceNumber device);
    Result (*primary_context_retain)(Context* context, DeviceNumber device);
    Result (*context_set_current)(Context context);
    Result (*context_push)(Context context);
    Result (*context_pop)(Context* context);
    Result (*exchange_capture_mode)(int* mode);
    Result (*memory_info)(std::size_t* free, std::size_t* total);
    Result (*memory_allocate)(Address* memory, std::size_t bytes);
    Result (*memory_free)(Address memory);
    Result (*host_allocate)(void** memory, std::size_t bytes, unsigned flags);
    Result (*host_free)(void* memory);
    Result (*host_register)(void* memory, std::size_t bytes, unsigned flags);
    Result (*host_unregister)(void* memory);
    Result (*pointer_get_attributes)(unsigned count, int* attributes, void** values, Address pointer);
    Result (*copy_to_host)(void* to, Address from, std::size_t bytes, StreamHandle stream);
    Result (*copy_to_device)(Address to, const void* from, std::size_t bytes, StreamHandle stream);
    Result (*stream_create)(StreamHandle* stream, unsigned flags, int priority);
    Result (*stream_destroy)(StreamHandle stream);
    Result (*stream_synchronize)(StreamHandle stream);
    Result (*stream_wait_event)(StreamHandle stream, EventHandle event, unsigned flags);
    Result (*stream_is_capturing)(StreamHandle stream, int* status);
    Result (*launch_host_function)(StreamHandle stream, HostFunction function, void* data);
    Result (*event_create)(EventHandle* event, unsigned flags);
    Result (*event_destroy)(EventHandle event);
    Result (*event_record)(EventHandle event, StreamHandle stream);
    Result (*event_query)(EventHandle event);
    Result (*event_synchronize)(EventHandle event);
    Result (*event_elapsed_time)(float* milliseconds, EventHandle start, EventHandle end);
    // Null before CUDA 13.0.
    Result (*copy_batch)(Address* to, Address* from, std::size_t* bytes, std::size_t count,
                         CUmemcpyAttributes_st* attributes, std::size_t* attributes_from, std::size_t attribute_count,
                         StreamHandle stream);
};

// The result of opening libcuda.so.1, once per process. It is never closed: other code in the process may use it.
struct Library {
    bool installed = false;  // the file is there
    bool complete = false;   // `api` can be called
    int version = 0;         // of the driver, 13000 is 13.0; 0: there is none, or it is unknown
    std::string obstacle;    // why `api` cannot be called, in one sentence, unless the version is the reason
    Api api{};
};
// Thread: any. Blocks: while the driver is loaded, the first time. Errors: none.
const Library& library();

// Broken contract unless library() is complete: CUDA is called only after find_gpus() found a GPU.
const Api& api();

}  // namespace offramp::driver
