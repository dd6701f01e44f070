#include "producer/device/cuda_stream.hpp"

#include <utility>

#include "producer/device/check.hpp"
#include "producer/device/context_guard.hpp"
#include "producer/device/cuda_work.hpp"
#include "producer/device/stream_name.hpp"

namespace offramp {

CudaStream::CudaStream(driver::Context context, const std::string& name)
    : context_(context), idle_(context, Device::Timing::Off) {
    check(driver::api().stream_create(&stream_, driver::kStreamNonBlocking), "cuStreamCreate");
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

void CudaStream::run_on_host(std::function<void()> work) { give_host_work(stream_, std::move(work)); }

void CudaStream::record(Event& event) { CudaEvent::of(event).record_on(stream_); }

void CudaStream::wait_for(Event& event) { give_wait(stream_, CudaEvent::of(event)); }

void CudaStream::synchronize() {
    idle_.record_on(stream_);
    idle_.wait();
}

}  // namespace offramp
