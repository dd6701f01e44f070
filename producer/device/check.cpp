#include "producer/device/check.hpp"

#include "common/base/log.hpp"

namespace offramp {
namespace {

std::string hint_for(cudaError_t error) {
    if (is_sticky(error))
        return "The GPU's context is lost and only a new process gets another; look for Xid lines in the "
               "kernel log";
    switch (exit_code_of(error)) {
        case ExitCode::DeviceOutOfMemory:
            return "Use a smaller batch, or free the memory that other processes hold (nvidia-smi lists "
                   "them)";
        case ExitCode::DeviceUnsupported:
            return "Check the driver with nvidia-smi, or run on the CPU (--device cpu)";
        default:
            return {};
    }
}

}  // namespace

std::string describe(cudaError_t error) {
    return std::string(cudaGetErrorName(error)) + " (" + std::to_string(static_cast<int>(error)) + "), " +
           cudaGetErrorString(error);
}

CudaCause cause_of(cudaError_t error, std::string_view call) {
    return {std::string(call), cudaGetErrorName(error), static_cast<int>(error)};
}

void check(cudaError_t result, std::string_view call, std::source_location where) {
    if (result == cudaSuccess) [[likely]]
        return;
    static_cast<void>(cudaGetLastError());
    throw CudaError(exit_code_of(result),
                    std::string(call) + " failed: " + describe(result) + ", at " + where.file_name() + ":" +
                        std::to_string(where.line()),
                    hint_for(result), cause_of(result, call));
}

void log_unless_freed(cudaError_t result, std::string_view call) noexcept {
    if (result == cudaSuccess || result == cudaErrorCudartUnloading) return;
    static_cast<void>(cudaGetLastError());
    try {
        spdlog::error("{} failed while freeing: {}", call, describe(result));
    } catch (...) {
        // Nothing is left to report it with; a destructor must not throw.
    }
}

bool is_sticky(cudaError_t error) noexcept {
    switch (error) {
        case cudaErrorECCUncorrectable:
        case cudaErrorNvlinkUncorrectable:
        case cudaErrorIllegalAddress:
        case cudaErrorLaunchTimeout:
        case cudaErrorContextIsDestroyed:
        case cudaErrorAssert:
        case cudaErrorHardwareStackError:
        case cudaErrorIllegalInstruction:
        case cudaErrorMisalignedAddress:
        case cudaErrorInvalidAddressSpace:
        case cudaErrorInvalidPc:
        case cudaErrorLaunchFailure:
        case cudaErrorMpsRpcFailure:
        case cudaErrorMpsClientTerminated:
        case cudaErrorExternalDevice:
        case cudaErrorUnknown:
            return true;
        default:
            return false;
    }
}

ExitCode exit_code_of(cudaError_t error) noexcept {
    switch (error) {
        case cudaSuccess:
            return ExitCode::Ok;
        case cudaErrorMemoryAllocation:
            return ExitCode::DeviceOutOfMemory;
        case cudaErrorInitializationError:
        case cudaErrorStubLibrary:
        case cudaErrorInsufficientDriver:
        case cudaErrorCallRequiresNewerDriver:
        case cudaErrorDevicesUnavailable:
        case cudaErrorNoDevice:
        case cudaErrorInvalidDevice:
        case cudaErrorDeviceNotLicensed:
        case cudaErrorStartupFailure:
        case cudaErrorInvalidKernelImage:
        case cudaErrorNoKernelImageForDevice:
        case cudaErrorUnsupportedPtxVersion:
        case cudaErrorJitCompilerNotFound:
        case cudaErrorNotPermitted:
        case cudaErrorNotSupported:
        case cudaErrorSystemNotReady:
        case cudaErrorSystemDriverMismatch:
        case cudaErrorCompatNotSupportedOnDevice:
        case cudaErrorMpsConnectionFailed:
        case cudaErrorMpsServerNotReady:
        case cudaErrorMpsMaxClientsReached:
        case cudaErrorMpsMaxConnectionsReached:
            return ExitCode::DeviceUnsupported;
        case cudaErrorInvalidValue:
        case cudaErrorInvalidConfiguration:
        case cudaErrorInvalidHostPointer:
        case cudaErrorInvalidDevicePointer:
        case cudaErrorInvalidMemcpyDirection:
        case cudaErrorInvalidDeviceFunction:
        case cudaErrorInvalidResourceHandle:
        case cudaErrorLaunchOutOfResources:
        case cudaErrorHostMemoryAlreadyRegistered:
        case cudaErrorHostMemoryNotRegistered:
            return ExitCode::Internal;
        default:
            // An unknown failure is treated as the worst: a new process is the one remedy that helps against
            // all of them.
            return ExitCode::DeviceBroken;
    }
}

}  // namespace offramp
