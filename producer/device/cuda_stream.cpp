#include "producer/device/cuda_stream.hpp"

#include <nvtx3/nvToolsExtCudaRt.h>

#include <utility>

#include "producer/device/check.hpp"

namespace offramp {

CudaStream::CudaStream(const std::string& name) : idle_(Device::Timing::Off) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    nvtxNameCudaStreamA(stream_, name.c_str());
}

CudaStream::~CudaStream() {
    log_unless_freed(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    log_unless_freed(cudaStreamDestroy(stream_), "cudaStreamDestroy");
}

void CudaStream::copy_to_host(std::byte* to, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_),
          "cudaMemcpyAsync (device to host)");
}

void CudaStream::copy_to_device(void* to, const std::byte* from, std::size_t bytes) {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_),
          "cudaMemcpyAsync (host to device)");
}

void CudaStream::run_on_host(std::function<void()> work) {
    auto given = std::make_unique<std::function<void()>>(std::move(work));
    const auto run = [](void* taken) { (*std::unique_ptr<std::function<void()>>(static_cast<std::function<void()>*>(taken)))(); };
    check(cudaLaunchHostFunc(stream_, run, given.get()), "cudaLaunchHostFunc");
    static_cast<void>(given.release());
}

void CudaStream::record(Event& event) {
    CudaEvent::of(event).record_on(stream_);
}

void CudaStream::wait_for(Event& event) {
    const CudaEvent& awaited = CudaEvent::of(event);
    expect(awaited.armed(), "an event is armed before a stream waits for it");
    check(cudaStreamWaitEvent(stream_, awaited.handle(), cudaEventWaitDefault), "cudaStreamWaitEvent");
}

void CudaStream::synchronize() {
    idle_.record_on(stream_);
    idle_.wait();
}

}  // namespace offramp
