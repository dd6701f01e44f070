#pragma once

#include "producer/device/check.hpp"

namespace offramp {

// Makes one GPU the calling thread's current device for a scope: what is allocated or created inside belongs
// to it, whatever the thread used before. Errors: CudaError from the constructor.
class DeviceGuard {
  public:
    explicit DeviceGuard(int device) {
        check(cudaGetDevice(&former_), "cudaGetDevice");
        check(cudaSetDevice(device), "cudaSetDevice");
    }
    ~DeviceGuard() { log_unless_freed(cudaSetDevice(former_), "cudaSetDevice"); }
    DeviceGuard(const DeviceGuard&) = delete;
    DeviceGuard& operator=(const DeviceGuard&) = delete;

  private:
    int former_ = 0;
};

}  // namespace offramp
