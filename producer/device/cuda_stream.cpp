#include "producer/device/cuda_stream.hpp"

#include <memory>
#include <utility>

#include "producer/device/context_guard.hpp"
#include "producer/device/stream_name.hpp"

namespace offramp {

CudaStream::CudaStream(driver::Context context, const std::string& name, Device::Priority priority)
    : context_(context), idle_(context, Device::Timing::Off) {
    // The driver takes the nearest priority that the GPU has; lower numbers come first.
    const int number = priority == Device::Priority::First ? -100 : 0;
    check(driver::api().stream_create(&stream_, driver::kStreamNonBlocking, number), "cuStreamCreateWithPriority");
    name_stream(stream_, name);
}

CudaStream::~CudaStream() {
    free_within(
        context_, [this] { return driver::api().stream_synchronize(stream_); }, "cuStreamSynchronize");
    free_within(
        context_, [this] { return driver::api().stream_destroy(stream_); }, "cuStreamDestroy");
}

void CudaStream::copy_to_host(std::byte* to, const void* from, std::size_t bytes) {
    give_copy_to_host(stream_, to, from, bytes);
}

void CudaStream::copy_to_device(void* to, const std::byte* from, std::size_t bytes) {
    give_copy_to_device(stream_, to, from, bytes);
}

// One call takes 0.5 µs per copy instead of 2 µs, and copies of 64 KiB are twice as fast.
void CudaStream::copy_all_to_host(std::span<const HostCopy> copies) {
    if (copies.size() < 2 || driver::api().copy_batch == nullptr) return Stream::copy_all_to_host(copies);
    batch_to_.clear();
    batch_from_.clear();
    batch_bytes_.clear();
    for (const HostCopy& copy : copies) {
        batch_to_.push_back(reinterpret_cast<driver::Address>(copy.to));
        batch_from_.push_back(reinterpret_cast<driver::Address>(copy.from));
        batch_bytes_.push_back(copy.bytes);
    }
    driver::CopyAttributes attributes;
    std::size_t from_the_first = 0;
    check(driver::api().copy_batch(batch_to_.data(), batch_from_.data(), batch_bytes_.data(), copies.size(),
                                   reinterpret_cast<CUmemcpyAttributes_st*>(&attributes), &from_the_first, 1, stream_),
          "cuMemcpyBatchAsync");
}

void CudaStream::run_on_host(std::function<void()> work) { give_host_work(stream_, std::move(work)); }

void CudaStream::record(Event& event) { CudaEvent::of(event).record_on(stream_); }

void CudaStream::wait_for(Event& event) { give_wait(stream_, CudaEvent::of(event)); }

// Callers free what the stream's work uses, so a failed event must not end the wait. Threads may share the event: a
// later record includes earlier work.
void CudaStream::synchronize() {
    const driver::EventHandle idle = idle_.handle();
    if (driver::api().event_record(idle, stream_) == driver::kSuccess &&
        driver::api().event_synchronize(idle) == driver::kSuccess)
        return;
    check(driver::api().stream_synchronize(stream_), "cuStreamSynchronize");
}

void give_copy_to_host(driver::StreamHandle stream, std::byte* to, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    check(driver::api().copy_to_host(to, reinterpret_cast<driver::Address>(from), bytes, stream), "cuMemcpyDtoHAsync");
}

void give_copy_to_device(driver::StreamHandle stream, void* to, const std::byte* from, std::size_t bytes) {
    if (bytes == 0) return;
    check(driver::api().copy_to_device(reinterpret_cast<driver::Address>(to), from, bytes, stream),
          "cuMemcpyHtoDAsync");
}

void give_host_work(driver::StreamHandle stream, std::function<void()> work) {
    using Work = std::function<void()>;
    auto given = std::make_unique<Work>(std::move(work));
    const driver::HostFunction run = [](void* taken) { (*std::unique_ptr<Work>(static_cast<Work*>(taken)))(); };
    check(driver::api().launch_host_function(stream, run, given.get()), "cuLaunchHostFunc");
    static_cast<void>(given.release());  // run() owns it; after an error of the stream it leaks
}

void give_wait(driver::StreamHandle stream, const CudaEvent& awaited) {
    expect(awaited.armed(), "an event is armed before a stream waits for it");
    check(driver::api().stream_wait_event(stream, awaited.handle(), 0), "cuStreamWaitEvent");
}

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
