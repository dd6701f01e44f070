#include "producer/device/cuda_event.hpp"

#include "producer/device/check.hpp"
#include "producer/device/context_guard.hpp"

namespace offramp {

CudaEvent::CudaEvent(driver::Context context, Device::Timing timing)
    : context_(context), timed_(timing == Device::Timing::On) {
    const unsigned flags = driver::kEventBlockingSync | (timed_ ? 0U : driver::kEventDisableTiming);
    check(driver::api().event_create(&event_, flags), "cuEventCreate");
}

CudaEvent::~CudaEvent() {
    free_within(
        context_, [this] { return driver::api().event_destroy(event_); }, "cuEventDestroy");
}

CudaEvent& CudaEvent::of(Event& event) {
    auto* const own = dynamic_cast<CudaEvent*>(&event);
    expect(own != nullptr, "a CUDA stream is given events of a CUDA device");
    return *own;
}

bool CudaEvent::done() {
    if (!armed_) return false;
    const driver::Result result = driver::api().event_query(event_);
    if (result == driver::kNotReady) return false;
    check(result, "cuEventQuery");
    return true;
}

void CudaEvent::wait() {
    expect(armed_, "an event is armed before it is waited for");
    check(driver::api().event_synchronize(event_), "cuEventSynchronize");
}

double CudaEvent::seconds_since(Event& earlier) {
    CudaEvent& start = of(earlier);
    expect(armed_ && start.armed_ && timed_ && start.timed_, "time is taken between two armed events with timing");
    float milliseconds = 0;
    check(driver::api().event_elapsed_time(&milliseconds, start.event_, event_), "cuEventElapsedTime");
    return static_cast<double>(milliseconds) / 1e3;
}

void CudaEvent::record_on(driver::StreamHandle stream) {
    check(driver::api().event_record(event_, stream), "cuEventRecord");
    armed_ = true;
}

}  // namespace offramp
