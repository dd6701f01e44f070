#include "producer/device/cuda_event.hpp"

#include "producer/device/check.hpp"

namespace offramp {

CudaEvent::CudaEvent(Device::Timing timing) : timed_(timing == Device::Timing::On) {
    const unsigned int flags = cudaEventBlockingSync | (timed_ ? 0U : cudaEventDisableTiming);
    check(cudaEventCreateWithFlags(&event_, flags), "cudaEventCreateWithFlags");
}

CudaEvent::~CudaEvent() {
    log_unless_freed(cudaEventDestroy(event_), "cudaEventDestroy");
}

CudaEvent& CudaEvent::of(Event& event) {
    auto* const own = dynamic_cast<CudaEvent*>(&event);
    expect(own != nullptr, "a CUDA stream is given events of a CUDA device");
    return *own;
}

bool CudaEvent::done() {
    if (!armed_) return false;
    const cudaError_t result = cudaEventQuery(event_);
    if (result == cudaErrorNotReady) {
        static_cast<void>(
            cudaGetLastError());  // not ready is no failure, and must not be taken for one by the next launch
        return false;
    }
    check(result, "cudaEventQuery");
    return true;
}

void CudaEvent::wait() {
    expect(armed_, "an event is armed before it is waited for");
    check(cudaEventSynchronize(event_), "cudaEventSynchronize");
}

double CudaEvent::seconds_since(Event& earlier) {
    CudaEvent& start = of(earlier);
    expect(armed_ && start.armed_ && timed_ && start.timed_,
           "time is taken between two armed events with timing");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start.event_, event_), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) / 1e3;
}

void CudaEvent::record_on(cudaStream_t stream) {
    check(cudaEventRecord(event_, stream), "cudaEventRecord");
    armed_ = true;
}

}  // namespace offramp
