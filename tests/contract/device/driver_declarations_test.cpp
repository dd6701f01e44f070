// The compiler compares driver_api.hpp's declarations of NVIDIA's driver with the toolkit's cuda.h: numbers and
// function parameters.
#include <cuda.h>
#include <driver_types.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "producer/device/cuda_failure.hpp"
#include "producer/device/driver_api.hpp"

namespace offramp {
namespace {

// Enumerations of cuda.h are ints here.
template <class Type>
struct Plain {
    using type = Type;
};
template <class Type>
requires std::is_enum_v<Type>
struct Plain<Type> {
    static_assert(sizeof(Type) == sizeof(int));
    using type = int;
};
template <class Type>
requires std::is_enum_v<Type>
struct Plain<Type*> {
    using type = int*;
};
template <class Function>
struct Signature;
template <class Result, class... Parameters>
struct Signature<Result(Parameters...)> {
    using type = typename Plain<Result>::type(typename Plain<Parameters>::type...);
};

template <auto Member, class Real>
constexpr bool kDeclares =
    std::is_same_v<std::remove_reference_t<decltype(driver::Api{}.*Member)>, typename Signature<Real>::type*>;

using driver::Api;
static_assert(kDeclares<&Api::init, decltype(cuInit)>);
static_assert(kDeclares<&Api::driver_get_version, decltype(cuDriverGetVersion)>);
static_assert(kDeclares<&Api::get_error_name, decltype(cuGetErrorName)>);
static_assert(kDeclares<&Api::get_error_string, decltype(cuGetErrorString)>);
static_assert(kDeclares<&Api::device_get_count, decltype(cuDeviceGetCount)>);
static_assert(kDeclares<&Api::device_get, decltype(cuDeviceGet)>);
static_assert(kDeclares<&Api::device_get_name, decltype(cuDeviceGetName)>);
static_assert(kDeclares<&Api::device_get_uuid, decltype(cuDeviceGetUuid)>);
static_assert(kDeclares<&Api::device_get_attribute, decltype(cuDeviceGetAttribute)>);
static_assert(kDeclares<&Api::device_get_pci_bus_id, decltype(cuDeviceGetPCIBusId)>);
static_assert(kDeclares<&Api::primary_context_retain, decltype(cuDevicePrimaryCtxRetain)>);
static_assert(kDeclares<&Api::context_set_current, decltype(cuCtxSetCurrent)>);
static_assert(kDeclares<&Api::context_push, decltype(cuCtxPushCurrent)>);
static_assert(kDeclares<&Api::context_pop, decltype(cuCtxPopCurrent)>);
static_assert(kDeclares<&Api::exchange_capture_mode, decltype(cuThreadExchangeStreamCaptureMode)>);
static_assert(kDeclares<&Api::memory_info, decltype(cuMemGetInfo)>);
static_assert(kDeclares<&Api::memory_allocate, decltype(cuMemAlloc)>);
static_assert(kDeclares<&Api::memory_free, decltype(cuMemFree)>);
static_assert(kDeclares<&Api::host_allocate, decltype(cuMemHostAlloc)>);
static_assert(kDeclares<&Api::host_free, decltype(cuMemFreeHost)>);
static_assert(kDeclares<&Api::host_register, decltype(cuMemHostRegister)>);
static_assert(kDeclares<&Api::host_unregister, decltype(cuMemHostUnregister)>);
static_assert(kDeclares<&Api::pointer_get_attributes, decltype(cuPointerGetAttributes)>);
static_assert(kDeclares<&Api::copy_to_host, decltype(cuMemcpyDtoHAsync)>);
static_assert(kDeclares<&Api::copy_to_device, decltype(cuMemcpyHtoDAsync)>);
static_assert(kDeclares<&Api::stream_create, decltype(cuStreamCreateWithPriority)>);
static_assert(kDeclares<&Api::stream_destroy, decltype(cuStreamDestroy)>);
static_assert(kDeclares<&Api::stream_synchronize, decltype(cuStreamSynchronize)>);
static_assert(kDeclares<&Api::stream_wait_event, decltype(cuStreamWaitEvent)>);
static_assert(kDeclares<&Api::stream_is_capturing, decltype(cuStreamIsCapturing)>);
static_assert(kDeclares<&Api::launch_host_function, decltype(cuLaunchHostFunc)>);
static_assert(kDeclares<&Api::event_create, decltype(cuEventCreate)>);
static_assert(kDeclares<&Api::event_destroy, decltype(cuEventDestroy)>);
static_assert(kDeclares<&Api::event_record, decltype(cuEventRecord)>);
static_assert(kDeclares<&Api::event_query, decltype(cuEventQuery)>);
static_assert(kDeclares<&Api::event_synchronize, decltype(cuEventSynchronize)>);
static_assert(kDeclares<&Api::event_elapsed_time, decltype(cuEventElapsedTime)>);
static_assert(kDeclares<&Api::copy_batch, decltype(cuMemcpyBatchAsync)>);
static_assert(sizeof(Api) == 38 * sizeof(void*), "each function above is compared");

static_assert(sizeof(driver::CopyAttributes) == sizeof(CUmemcpyAttributes));
static_assert(offsetof(driver::CopyAttributes, destination) == offsetof(CUmemcpyAttributes, dstLocHint));
static_assert(offsetof(driver::CopyAttributes, flags) == offsetof(CUmemcpyAttributes, flags));
static_assert(driver::CopyAttributes{}.source_order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);

static_assert(driver::kSuccess == CUDA_SUCCESS);
static_assert(driver::kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(driver::kDeinitialized == CUDA_ERROR_DEINITIALIZED);
static_assert(driver::kNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(driver::kNotReady == CUDA_ERROR_NOT_READY);
static_assert(driver::kCaptureUnsupported == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
static_assert(driver::kCaptureImplicit == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
static_assert(driver::kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(driver::kEventBlockingSync == CU_EVENT_BLOCKING_SYNC);
static_assert(driver::kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(driver::kHostAllocPortable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(driver::kHostRegisterPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(driver::kComputeMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(driver::kComputeMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(driver::kMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(driver::kMemoryTypeHost == CU_MEMORYTYPE_HOST);
static_assert(driver::kCaptureRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(driver::kCaptureNone == CU_STREAM_CAPTURE_STATUS_NONE);

TEST(DriverDeclarations, TheLegacyStreamEqualsCudas) { EXPECT_EQ(driver::kLegacyStream, CU_STREAM_LEGACY); }

// Errors of the driver, and of the runtime where it has one.
static_assert(kCudaSuccess == static_cast<CudaNumber>(CUDA_SUCCESS) &&
              kCudaSuccess == static_cast<CudaNumber>(cudaSuccess));
static_assert(kCudaInvalidValue == static_cast<CudaNumber>(CUDA_ERROR_INVALID_VALUE) &&
              kCudaInvalidValue == static_cast<CudaNumber>(cudaErrorInvalidValue));
static_assert(kCudaOutOfMemory == static_cast<CudaNumber>(CUDA_ERROR_OUT_OF_MEMORY) &&
              kCudaOutOfMemory == static_cast<CudaNumber>(cudaErrorMemoryAllocation));
static_assert(kCudaNotInitialized == static_cast<CudaNumber>(CUDA_ERROR_NOT_INITIALIZED) &&
              kCudaNotInitialized == static_cast<CudaNumber>(cudaErrorInitializationError));
static_assert(kCudaRuntimeInvalidConfiguration == static_cast<CudaNumber>(cudaErrorInvalidConfiguration));
static_assert(kCudaRuntimeInvalidHostPointer == static_cast<CudaNumber>(cudaErrorInvalidHostPointer));
static_assert(kCudaRuntimeInvalidDevicePointer == static_cast<CudaNumber>(cudaErrorInvalidDevicePointer));
static_assert(kCudaRuntimeInvalidMemcpyDirection == static_cast<CudaNumber>(cudaErrorInvalidMemcpyDirection));
static_assert(kCudaStubLibrary == static_cast<CudaNumber>(CUDA_ERROR_STUB_LIBRARY) &&
              kCudaStubLibrary == static_cast<CudaNumber>(cudaErrorStubLibrary));
static_assert(kCudaRuntimeInsufficientDriver == static_cast<CudaNumber>(cudaErrorInsufficientDriver));
static_assert(kCudaCallRequiresNewerDriver == static_cast<CudaNumber>(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER) &&
              kCudaCallRequiresNewerDriver == static_cast<CudaNumber>(cudaErrorCallRequiresNewerDriver));
static_assert(kCudaDeviceUnavailable == static_cast<CudaNumber>(CUDA_ERROR_DEVICE_UNAVAILABLE) &&
              kCudaDeviceUnavailable == static_cast<CudaNumber>(cudaErrorDevicesUnavailable));
static_assert(kCudaRuntimeInvalidDeviceFunction == static_cast<CudaNumber>(cudaErrorInvalidDeviceFunction));
static_assert(kCudaNoDevice == static_cast<CudaNumber>(CUDA_ERROR_NO_DEVICE) &&
              kCudaNoDevice == static_cast<CudaNumber>(cudaErrorNoDevice));
static_assert(kCudaInvalidDevice == static_cast<CudaNumber>(CUDA_ERROR_INVALID_DEVICE) &&
              kCudaInvalidDevice == static_cast<CudaNumber>(cudaErrorInvalidDevice));
static_assert(kCudaDeviceNotLicensed == static_cast<CudaNumber>(CUDA_ERROR_DEVICE_NOT_LICENSED) &&
              kCudaDeviceNotLicensed == static_cast<CudaNumber>(cudaErrorDeviceNotLicensed));
static_assert(kCudaRuntimeStartupFailure == static_cast<CudaNumber>(cudaErrorStartupFailure));
static_assert(kCudaInvalidImage == static_cast<CudaNumber>(CUDA_ERROR_INVALID_IMAGE) &&
              kCudaInvalidImage == static_cast<CudaNumber>(cudaErrorInvalidKernelImage));
static_assert(kCudaInvalidContext == static_cast<CudaNumber>(CUDA_ERROR_INVALID_CONTEXT) &&
              kCudaInvalidContext == static_cast<CudaNumber>(cudaErrorDeviceUninitialized));
static_assert(kCudaNoBinaryForGpu == static_cast<CudaNumber>(CUDA_ERROR_NO_BINARY_FOR_GPU) &&
              kCudaNoBinaryForGpu == static_cast<CudaNumber>(cudaErrorNoKernelImageForDevice));
static_assert(kCudaEccUncorrectable == static_cast<CudaNumber>(CUDA_ERROR_ECC_UNCORRECTABLE) &&
              kCudaEccUncorrectable == static_cast<CudaNumber>(cudaErrorECCUncorrectable));
static_assert(kCudaNvlinkUncorrectable == static_cast<CudaNumber>(CUDA_ERROR_NVLINK_UNCORRECTABLE) &&
              kCudaNvlinkUncorrectable == static_cast<CudaNumber>(cudaErrorNvlinkUncorrectable));
static_assert(kCudaJitCompilerNotFound == static_cast<CudaNumber>(CUDA_ERROR_JIT_COMPILER_NOT_FOUND) &&
              kCudaJitCompilerNotFound == static_cast<CudaNumber>(cudaErrorJitCompilerNotFound));
static_assert(kCudaUnsupportedPtxVersion == static_cast<CudaNumber>(CUDA_ERROR_UNSUPPORTED_PTX_VERSION) &&
              kCudaUnsupportedPtxVersion == static_cast<CudaNumber>(cudaErrorUnsupportedPtxVersion));
static_assert(kCudaInvalidHandle == static_cast<CudaNumber>(CUDA_ERROR_INVALID_HANDLE) &&
              kCudaInvalidHandle == static_cast<CudaNumber>(cudaErrorInvalidResourceHandle));
static_assert(kCudaIllegalAddress == static_cast<CudaNumber>(CUDA_ERROR_ILLEGAL_ADDRESS) &&
              kCudaIllegalAddress == static_cast<CudaNumber>(cudaErrorIllegalAddress));
static_assert(kCudaLaunchOutOfResources == static_cast<CudaNumber>(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) &&
              kCudaLaunchOutOfResources == static_cast<CudaNumber>(cudaErrorLaunchOutOfResources));
static_assert(kCudaLaunchTimeout == static_cast<CudaNumber>(CUDA_ERROR_LAUNCH_TIMEOUT) &&
              kCudaLaunchTimeout == static_cast<CudaNumber>(cudaErrorLaunchTimeout));
static_assert(kCudaContextIsDestroyed == static_cast<CudaNumber>(CUDA_ERROR_CONTEXT_IS_DESTROYED) &&
              kCudaContextIsDestroyed == static_cast<CudaNumber>(cudaErrorContextIsDestroyed));
static_assert(kCudaAssert == static_cast<CudaNumber>(CUDA_ERROR_ASSERT) &&
              kCudaAssert == static_cast<CudaNumber>(cudaErrorAssert));
static_assert(kCudaHostMemoryAlreadyRegistered == static_cast<CudaNumber>(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED) &&
              kCudaHostMemoryAlreadyRegistered == static_cast<CudaNumber>(cudaErrorHostMemoryAlreadyRegistered));
static_assert(kCudaHostMemoryNotRegistered == static_cast<CudaNumber>(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED) &&
              kCudaHostMemoryNotRegistered == static_cast<CudaNumber>(cudaErrorHostMemoryNotRegistered));
static_assert(kCudaHardwareStackError == static_cast<CudaNumber>(CUDA_ERROR_HARDWARE_STACK_ERROR) &&
              kCudaHardwareStackError == static_cast<CudaNumber>(cudaErrorHardwareStackError));
static_assert(kCudaIllegalInstruction == static_cast<CudaNumber>(CUDA_ERROR_ILLEGAL_INSTRUCTION) &&
              kCudaIllegalInstruction == static_cast<CudaNumber>(cudaErrorIllegalInstruction));
static_assert(kCudaMisalignedAddress == static_cast<CudaNumber>(CUDA_ERROR_MISALIGNED_ADDRESS) &&
              kCudaMisalignedAddress == static_cast<CudaNumber>(cudaErrorMisalignedAddress));
static_assert(kCudaInvalidAddressSpace == static_cast<CudaNumber>(CUDA_ERROR_INVALID_ADDRESS_SPACE) &&
              kCudaInvalidAddressSpace == static_cast<CudaNumber>(cudaErrorInvalidAddressSpace));
static_assert(kCudaInvalidPc == static_cast<CudaNumber>(CUDA_ERROR_INVALID_PC) &&
              kCudaInvalidPc == static_cast<CudaNumber>(cudaErrorInvalidPc));
static_assert(kCudaLaunchFailed == static_cast<CudaNumber>(CUDA_ERROR_LAUNCH_FAILED) &&
              kCudaLaunchFailed == static_cast<CudaNumber>(cudaErrorLaunchFailure));
static_assert(kCudaNotPermitted == static_cast<CudaNumber>(CUDA_ERROR_NOT_PERMITTED) &&
              kCudaNotPermitted == static_cast<CudaNumber>(cudaErrorNotPermitted));
static_assert(kCudaNotSupported == static_cast<CudaNumber>(CUDA_ERROR_NOT_SUPPORTED) &&
              kCudaNotSupported == static_cast<CudaNumber>(cudaErrorNotSupported));
static_assert(kCudaSystemNotReady == static_cast<CudaNumber>(CUDA_ERROR_SYSTEM_NOT_READY) &&
              kCudaSystemNotReady == static_cast<CudaNumber>(cudaErrorSystemNotReady));
static_assert(kCudaSystemDriverMismatch == static_cast<CudaNumber>(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH) &&
              kCudaSystemDriverMismatch == static_cast<CudaNumber>(cudaErrorSystemDriverMismatch));
static_assert(kCudaCompatNotSupportedOnDevice == static_cast<CudaNumber>(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE) &&
              kCudaCompatNotSupportedOnDevice == static_cast<CudaNumber>(cudaErrorCompatNotSupportedOnDevice));
static_assert(kCudaMpsConnectionFailed == static_cast<CudaNumber>(CUDA_ERROR_MPS_CONNECTION_FAILED) &&
              kCudaMpsConnectionFailed == static_cast<CudaNumber>(cudaErrorMpsConnectionFailed));
static_assert(kCudaMpsRpcFailure == static_cast<CudaNumber>(CUDA_ERROR_MPS_RPC_FAILURE) &&
              kCudaMpsRpcFailure == static_cast<CudaNumber>(cudaErrorMpsRpcFailure));
static_assert(kCudaMpsServerNotReady == static_cast<CudaNumber>(CUDA_ERROR_MPS_SERVER_NOT_READY) &&
              kCudaMpsServerNotReady == static_cast<CudaNumber>(cudaErrorMpsServerNotReady));
static_assert(kCudaMpsMaxClientsReached == static_cast<CudaNumber>(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED) &&
              kCudaMpsMaxClientsReached == static_cast<CudaNumber>(cudaErrorMpsMaxClientsReached));
static_assert(kCudaMpsMaxConnectionsReached == static_cast<CudaNumber>(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED) &&
              kCudaMpsMaxConnectionsReached == static_cast<CudaNumber>(cudaErrorMpsMaxConnectionsReached));
static_assert(kCudaMpsClientTerminated == static_cast<CudaNumber>(CUDA_ERROR_MPS_CLIENT_TERMINATED) &&
              kCudaMpsClientTerminated == static_cast<CudaNumber>(cudaErrorMpsClientTerminated));
static_assert(kCudaStreamCaptureUnsupported == static_cast<CudaNumber>(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) &&
              kCudaStreamCaptureUnsupported == static_cast<CudaNumber>(cudaErrorStreamCaptureUnsupported));
static_assert(kCudaStreamCaptureInvalidated == static_cast<CudaNumber>(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED) &&
              kCudaStreamCaptureInvalidated == static_cast<CudaNumber>(cudaErrorStreamCaptureInvalidated));
static_assert(kCudaStreamCaptureMerge == static_cast<CudaNumber>(CUDA_ERROR_STREAM_CAPTURE_MERGE) &&
              kCudaStreamCaptureMerge == static_cast<CudaNumber>(cudaErrorStreamCaptureMerge));
static_assert(kCudaStreamCaptureUnmatched == static_cast<CudaNumber>(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED) &&
              kCudaStreamCaptureUnmatched == static_cast<CudaNumber>(cudaErrorStreamCaptureUnmatched));
static_assert(kCudaStreamCaptureUnjoined == static_cast<CudaNumber>(CUDA_ERROR_STREAM_CAPTURE_UNJOINED) &&
              kCudaStreamCaptureUnjoined == static_cast<CudaNumber>(cudaErrorStreamCaptureUnjoined));
static_assert(kCudaStreamCaptureIsolation == static_cast<CudaNumber>(CUDA_ERROR_STREAM_CAPTURE_ISOLATION) &&
              kCudaStreamCaptureIsolation == static_cast<CudaNumber>(cudaErrorStreamCaptureIsolation));
static_assert(kCudaStreamCaptureImplicit == static_cast<CudaNumber>(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) &&
              kCudaStreamCaptureImplicit == static_cast<CudaNumber>(cudaErrorStreamCaptureImplicit));
static_assert(kCudaCapturedEvent == static_cast<CudaNumber>(CUDA_ERROR_CAPTURED_EVENT) &&
              kCudaCapturedEvent == static_cast<CudaNumber>(cudaErrorCapturedEvent));
static_assert(kCudaStreamCaptureWrongThread == static_cast<CudaNumber>(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD) &&
              kCudaStreamCaptureWrongThread == static_cast<CudaNumber>(cudaErrorStreamCaptureWrongThread));
static_assert(kCudaExternalDevice == static_cast<CudaNumber>(CUDA_ERROR_EXTERNAL_DEVICE) &&
              kCudaExternalDevice == static_cast<CudaNumber>(cudaErrorExternalDevice));
static_assert(kCudaUnknown == static_cast<CudaNumber>(CUDA_ERROR_UNKNOWN) &&
              kCudaUnknown == static_cast<CudaNumber>(cudaErrorUnknown));

}  // namespace
}  // namespace offramp
