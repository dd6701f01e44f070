#pragma once

#include <string>
#include <utility>

#include "common/base/error.hpp"

namespace offramp {

// CUDA's own word on a failure: the call, the error's name and number. Number 0: CUDA was not asked (the CPU
// backend, a bad index).
struct CudaCause {
    std::string call;
    std::string error_name;
    int error_number = 0;
};

// A GPU, its driver or its memory refused. Without any CUDA header, so that everyone can catch it. The exit
// code says what can be done: DeviceUnsupported (another machine or driver), DeviceOutOfMemory (a smaller
// batch), DeviceBroken (a sticky error: the context is lost, only a new process helps), Internal (a call of
// ours was wrong).
class CudaError : public Error {
  public:
    CudaError(ErrorKind kind, const std::string& what_happened, const std::string& hint = {}, CudaCause cause = {})
        : Error(kind, what_happened, hint), cause_(std::move(cause)) {}

    const CudaCause& cause() const noexcept { return cause_; }

  private:
    CudaCause cause_;
};

}  // namespace offramp
