#pragma once

#include <source_location>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/error_kind.hpp"

namespace offramp {

// CUDA's description of a failure: the call, the error's name and number. Number 0: no CUDA call was made (the CPU
// backend, a bad index).
struct CudaCause {
    std::string call;
    std::string error_name;
    int error_number = 0;
};

// A failure of a GPU, its driver or its memory. Includes no CUDA header, so that any code can catch it. The exit code
// suggests the remedy: DeviceUnsupported (another machine or driver), DeviceOutOfMemory (a smaller batch), DeviceBroken
// (a sticky error: the context is lost, only a new process helps), Internal (a wrong call in this library).
class CudaError : public Error {
  public:
    CudaError(ErrorKind kind, const std::string& what_happened, const std::string& hint = {}, CudaCause cause = {})
        : Error(kind, what_happened, hint), cause_(std::move(cause)) {}

    const CudaCause& cause() const noexcept { return cause_; }

  private:
    CudaCause cause_;
};

// The meaning of CUDA's error numbers for a program. Driver and runtime share their numbers (cuda.h, driver_types.h),
// and no number means two things, so callers of either use these functions.

// True for errors after which every call of the process fails: the context is lost.
bool is_sticky(int error_number) noexcept;

// The exit code for a program that ends because of it. Errors not known to be harmless count as a lost context.
ErrorKind error_kind_of(int error_number) noexcept;

// "cudaErrorNoDevice (100), no CUDA-capable device is detected"
std::string describe(const CudaCause& cause, std::string_view text);

// Throws CudaError: "cuMemFree failed: CUDA_ERROR_ILLEGAL_ADDRESS (700), an illegal memory access was encountered, at
// FILE:LINE". `text` is CUDA's own.
[[noreturn]] void throw_cuda_error(CudaCause cause, std::string_view text, std::source_location where);

// CUDA's error numbers used in cuda_failure.hpp, with the driver's names; Runtime...: only in the CUDA runtime.
enum CudaNumber : int {
    kCudaSuccess = 0,
    kCudaInvalidValue = 1,
    kCudaOutOfMemory = 2,
    kCudaNotInitialized = 3,
    kCudaRuntimeInvalidConfiguration = 9,
    kCudaRuntimeInvalidHostPointer = 16,
    kCudaRuntimeInvalidDevicePointer = 17,
    kCudaRuntimeInvalidMemcpyDirection = 21,
    kCudaStubLibrary = 34,
    kCudaRuntimeInsufficientDriver = 35,
    kCudaCallRequiresNewerDriver = 36,
    kCudaDeviceUnavailable = 46,
    kCudaRuntimeInvalidDeviceFunction = 98,
    kCudaNoDevice = 100,
    kCudaInvalidDevice = 101,
    kCudaDeviceNotLicensed = 102,
    kCudaRuntimeStartupFailure = 127,
    kCudaInvalidImage = 200,
    kCudaInvalidContext = 201,
    kCudaNoBinaryForGpu = 209,
    kCudaEccUncorrectable = 214,
    kCudaNvlinkUncorrectable = 220,
    kCudaJitCompilerNotFound = 221,
    kCudaUnsupportedPtxVersion = 222,
    kCudaInvalidHandle = 400,
    kCudaIllegalAddress = 700,
    kCudaLaunchOutOfResources = 701,
    kCudaLaunchTimeout = 702,
    kCudaContextIsDestroyed = 709,
    kCudaAssert = 710,
    kCudaHostMemoryAlreadyRegistered = 712,
    kCudaHostMemoryNotRegistered = 713,
    kCudaHardwareStackError = 714,
    kCudaIllegalInstruction = 715,
    kCudaMisalignedAddress = 716,
    kCudaInvalidAddressSpace = 717,
    kCudaInvalidPc = 718,
    kCudaLaunchFailed = 719,
    kCudaNotPermitted = 800,
    kCudaNotSupported = 801,
    kCudaSystemNotReady = 802,
    kCudaSystemDriverMismatch = 803,
    kCudaCompatNotSupportedOnDevice = 804,
    kCudaMpsConnectionFailed = 805,
    kCudaMpsRpcFailure = 806,
    kCudaMpsServerNotReady = 807,
    kCudaMpsMaxClientsReached = 808,
    kCudaMpsMaxConnectionsReached = 809,
    kCudaMpsClientTerminated = 810,
    kCudaStreamCaptureUnsupported = 900,
    kCudaStreamCaptureInvalidated = 901,
    kCudaStreamCaptureMerge = 902,
    kCudaStreamCaptureUnmatched = 903,
    kCudaStreamCaptureUnjoined = 904,
    kCudaStreamCaptureIsolation = 905,
    kCudaStreamCaptureImplicit = 906,
    kCudaCapturedEvent = 907,
    kCudaStreamCaptureWrongThread = 908,
    kCudaExternalDevice = 911,
    kCudaUnknown = 999,
};

}  // namespace offramp
