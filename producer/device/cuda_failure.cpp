#include "producer/device/cuda_failure.hpp"

#include <string>
#include <utility>

#include "common/base/remedy.hpp"

namespace offramp {
namespace {

std::string hint_for(int error_number) {
    if (is_sticky(error_number))
        return "The GPU's context is lost: start the program again, and look for Xid lines in the kernel log";
    switch (error_kind_of(error_number)) {
        case ErrorKind::DeviceOutOfMemory:
            return "Use a smaller batch, or free the memory that other processes hold (nvidia-smi lists them)";
        case ErrorKind::DeviceUnsupported:
            return remedy(Remedy::RunOnCpu) + ", or check the driver with nvidia-smi";
        default:
            return {};
    }
}

}  // namespace

bool is_sticky(int error_number) noexcept {
    switch (error_number) {
        case kCudaEccUncorrectable:
        case kCudaNvlinkUncorrectable:
        case kCudaIllegalAddress:
        case kCudaLaunchTimeout:
        case kCudaContextIsDestroyed:
        case kCudaAssert:
        case kCudaHardwareStackError:
        case kCudaIllegalInstruction:
        case kCudaMisalignedAddress:
        case kCudaInvalidAddressSpace:
        case kCudaInvalidPc:
        case kCudaLaunchFailed:
        case kCudaMpsRpcFailure:
        case kCudaMpsClientTerminated:
        case kCudaExternalDevice:
        case kCudaUnknown:
            return true;
        default:
            return false;
    }
}

ErrorKind error_kind_of(int error_number) noexcept {
    switch (error_number) {
        case kCudaSuccess:
            return ErrorKind::None;
        case kCudaOutOfMemory:
            return ErrorKind::DeviceOutOfMemory;
        case kCudaNotInitialized:
        case kCudaStubLibrary:
        case kCudaRuntimeInsufficientDriver:
        case kCudaCallRequiresNewerDriver:
        case kCudaDeviceUnavailable:
        case kCudaNoDevice:
        case kCudaInvalidDevice:
        case kCudaDeviceNotLicensed:
        case kCudaRuntimeStartupFailure:
        case kCudaInvalidImage:
        case kCudaNoBinaryForGpu:
        case kCudaJitCompilerNotFound:
        case kCudaUnsupportedPtxVersion:
        case kCudaNotPermitted:
        case kCudaNotSupported:
        case kCudaSystemNotReady:
        case kCudaSystemDriverMismatch:
        case kCudaCompatNotSupportedOnDevice:
        case kCudaMpsConnectionFailed:
        case kCudaMpsServerNotReady:
        case kCudaMpsMaxClientsReached:
        case kCudaMpsMaxConnectionsReached:
            return ErrorKind::DeviceUnsupported;
        case kCudaInvalidValue:
        case kCudaRuntimeInvalidConfiguration:
        case kCudaRuntimeInvalidHostPointer:
        case kCudaRuntimeInvalidDevicePointer:
        case kCudaRuntimeInvalidMemcpyDirection:
        case kCudaRuntimeInvalidDeviceFunction:
        case kCudaInvalidContext:
        case kCudaInvalidHandle:
        case kCudaLaunchOutOfResources:
        case kCudaHostMemoryAlreadyRegistered:
        case kCudaHostMemoryNotRegistered:
        case kCudaStreamCaptureUnsupported:
        case kCudaStreamCaptureInvalidated:
        case kCudaStreamCaptureMerge:
        case kCudaStreamCaptureUnmatched:
        case kCudaStreamCaptureUnjoined:
        case kCudaStreamCaptureIsolation:
        case kCudaStreamCaptureImplicit:
        case kCudaCapturedEvent:
        case kCudaStreamCaptureWrongThread:
            return ErrorKind::Internal;
        default:
            // Treat an unknown failure as the worst: a new process helps against all of them.
            return ErrorKind::DeviceBroken;
    }
}

std::string describe(const CudaCause& cause, std::string_view text) {
    return cause.error_name + " (" + std::to_string(cause.error_number) + "), " + std::string(text);
}

void throw_cuda_error(CudaCause cause, std::string_view text, std::source_location where) {
    const int number = cause.error_number;
    const std::string what = cause.call + " failed: " + describe(cause, text) + ", at " + where.file_name() + ":" +
                             std::to_string(where.line());
    throw CudaError(error_kind_of(number), what, hint_for(number), std::move(cause));
}

}  // namespace offramp
