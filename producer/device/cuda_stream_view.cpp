#include "producer/device/cuda_stream_view.hpp"

#include <utility>

#include "producer/device/check.hpp"
#include "producer/device/context_guard.hpp"
#include "producer/device/cuda_work.hpp"

namespace offramp {

CudaStreamView::CudaStreamView(driver::Context context, driver::StreamHandle stream)
    : context_(context), stream_(stream == nullptr ? driver::kLegacyStream : stream) {}

void CudaStreamView::refuse_capture() const {
    int status = driver::kCaptureNone;
    const driver::Result result = driver::api().stream_is_capturing(stream_, &status);
    // The legacy stream, while a stream that it waits for is captured: using it would spoil that capture.
    if (result != driver::kCaptureImplicit) check(result, "cuStreamIsCapturing");
    if (result == driver::kSuccess && status == driver::kCaptureNone) return;
    throw CudaError(ErrorKind::Internal,
                    "The stream is being captured into a CUDA graph, which must not contain this work",
                    "Submit the work before the capture begins, or after it has ended",
                    cause_of(result == driver::kSuccess ? driver::kCaptureUnsupported : result, "cuStreamIsCapturing"));
}

template <class Give>
void CudaStreamView::give(Give give) {
    const ContextGuard guard(context_);
    refuse_capture();
    give();
}

void CudaStreamView::copy_to_host(std::byte* to, const void* from, std::size_t bytes) {
    give([&] { give_copy_to_host(stream_, to, from, bytes); });
}

void CudaStreamView::copy_to_device(void* to, const std::byte* from, std::size_t bytes) {
    give([&] { give_copy_to_device(stream_, to, from, bytes); });
}

void CudaStreamView::run_on_host(std::function<void()> work) {
    give([&] { give_host_work(stream_, std::move(work)); });
}

void CudaStreamView::record(Event& event) {
    give([&] { CudaEvent::of(event).record_on(stream_); });
}

void CudaStreamView::wait_for(Event& event) {
    give([&] { give_wait(stream_, CudaEvent::of(event)); });
}

void CudaStreamView::synchronize() {
    give([&] {
        CudaEvent idle(context_, Device::Timing::Off);
        idle.record_on(stream_);
        idle.wait();
    });
}

}  // namespace offramp
