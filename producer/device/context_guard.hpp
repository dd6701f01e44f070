#pragma once

#include <string_view>

#include "producer/device/check.hpp"
#include "producer/device/driver_api.hpp"

namespace offramp {

// Makes a GPU's context the calling thread's for a scope: what is allocated or created inside belongs to it, and the
// thread has its own again afterwards, or none. Somebody's capture of a CUDA graph, which on any thread forbids calls
// like these, does not mind those inside. Errors: CudaError from the constructor.
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

// For destructors: calls free() within the context, on whatever thread this is, and logs what fails.
template <class Free>
void free_within(driver::Context context, Free free, std::string_view call) noexcept {
    try {
        const ContextGuard guard(context);
        log_unless_freed(free(), call);
    } catch (const CudaError& error) {
        log_unless_freed(error.cause().error_number, "cuCtxPushCurrent");
    } catch (...) {
        // Nothing is left to report it with; a destructor must not throw.
    }
}

}  // namespace offramp
