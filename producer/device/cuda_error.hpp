#pragma once

#include <string>
#include <utility>

#include "common/base/error.hpp"

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

}  // namespace offramp
