#include "producer/device/cuda_stream.hpp"

#include <nvtx3/nvToolsExtCudaRt.h>

#include "producer/device/check.hpp"
#include "producer/device/class_map_plan.hpp"
#include "producer/device/kernels.hpp"
#include "producer/device/normalize_plan.hpp"

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

void CudaStream::normalize(void* to, const TensorSpec& spec, const PixelInput& input) {
    const NormalizePlan plan = plan_normalize(spec, input);
    if (plan.elements() == 0) return;
    check(launch_normalize(stream_, to, input.pixels, plan), "normalize kernel");
}

void CudaStream::cast(void* to, DType type, const void* from, std::size_t elements) {
    expect(type == kFloat16 || type == kBFloat16, "a cast makes float16 or bfloat16");
    if (elements == 0) return;
    check(launch_cast(stream_, to, type, from, elements), "cast kernel");
}

void CudaStream::map_classes(std::uint8_t* ids, std::uint8_t* confidence, const ClassScores& input) {
    const ClassMapPlan plan = plan_class_map(input);
    if (plan.pixels() == 0) return;
    check(launch_map_classes(stream_, ids, confidence, input.scores, plan), "class map kernel");
}

void CudaStream::map_foreground(std::uint8_t* ids, std::uint8_t* confidence, float* outliers, const ForegroundScores& input) {
    const ForegroundPlan plan = plan_foreground(input);
    if (plan.map.pixels() == 0) return;
    check(cudaMemsetAsync(outliers, 0, static_cast<std::size_t>(input.rows) * sizeof *outliers, stream_), "cudaMemsetAsync");
    check(launch_map_foreground(stream_, ids, confidence, outliers, input.scores, plan), "foreground kernel");
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
