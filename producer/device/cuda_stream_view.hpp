#pragma once

#include <functional>

#include "producer/device/cuda_event.hpp"
#include "producer/device/device.hpp"
#include "producer/device/driver_api.hpp"

namespace offramp {

// A caller's CUDA stream, of the GPU's primary context. Each call makes that context current and restores the thread's
// own, so any thread of the caller may make it. The destructor neither waits nor destroys the stream. Borrows: the
// stream and the context. Errors: CudaError Internal, without submitting anything, while the stream is captured into a
// CUDA graph: the work would run when the graph is replayed, not now.
class CudaStreamView final : public Stream {
  public:
    // Null is the legacy default stream; native() then returns that stream's own handle.
    CudaStreamView(driver::Context context, driver::StreamHandle stream);

    void copy_to_host(std::byte* to, const void* from, std::size_t bytes) override;
    void copy_to_device(void* to, const std::byte* from, std::size_t bytes) override;
    void run_on_host(std::function<void()> work) override;
    void record(Event& event) override;
    void wait_for(Event& event) override;
    void synchronize() override;
    void* native() const override { return stream_; }

  private:
    // Calls give() within the context.
    template <class Give>
    void give(Give give);
    void refuse_capture() const;

    driver::Context context_;
    driver::StreamHandle stream_;
};

}  // namespace offramp
