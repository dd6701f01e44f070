#pragma once

#include <source_location>
#include <string>
#include <string_view>

#include "producer/device/cuda_failure.hpp"
#include "producer/device/driver_api.hpp"

namespace offramp {

// Throws CudaError unless `result` is success: "cuMemFree failed: CUDA_ERROR_ILLEGAL_ADDRESS (700), an illegal
// memory access was encountered, at FILE:LINE".
void check(driver::Result result, std::string_view call, std::source_location where = std::source_location::current());

// For destructors: logs instead of throwing. CUDA_ERROR_DEINITIALIZED is success: the process is ending and
// CUDA has already freed everything.
void log_unless_freed(driver::Result result, std::string_view call) noexcept;

CudaCause cause_of(driver::Result error, std::string_view call);

// "CUDA_ERROR_NO_DEVICE (100), no CUDA-capable device is detected"
std::string describe(driver::Result error);

// Makes a GPU's context the calling thread's for a scope. Allocations inside belong to it; afterwards the thread has
// its own context again, or none. Calls inside are allowed even while another thread captures a CUDA graph. Errors:
// CudaError from the constructor.
class ContextGuard {
  public:
    explicit ContextGuard(driver::Context context) {
        check(driver::api().context_push(context), "cuCtxPushCurrent");
        const driver::Result result = driver::api().exchange_capture_mode(&mode_);
        if (result == driver::kSuccess) return;
        pop();
        check(result, "cuThreadExchangeStreamCaptureMode");
    }
    ~ContextGuard() {
        log_unless_freed(driver::api().exchange_capture_mode(&mode_), "cuThreadExchangeStreamCaptureMode");
        pop();
    }
    ContextGuard(const ContextGuard&) = delete;
    ContextGuard& operator=(const ContextGuard&) = delete;

  private:
    static void pop() {
        driver::Context popped = nullptr;
        log_unless_freed(driver::api().context_pop(&popped), "cuCtxPopCurrent");
    }

    int mode_ = driver::kCaptureRelaxed;  // then the thread's own
};

// For destructors: calls free() within the context, on any thread, and logs failures.
template <class Free>
void free_within(driver::Context context, Free free, std::string_view call) noexcept {
    try {
        const ContextGuard guard(context);
        log_unless_freed(free(), call);
    } catch (const CudaError& error) {
        log_unless_freed(error.cause().error_number, "cuCtxPushCurrent");
    } catch (...) {
        // It cannot be reported otherwise; a destructor must not throw.
    }
}

}  // namespace offramp
