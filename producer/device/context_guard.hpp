#pragma once

#include <string_view>

#include "producer/device/check.hpp"
#include "producer/device/driver_api.hpp"

namespace offramp {

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
