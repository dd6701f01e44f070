#pragma once

#include <cuda_runtime_api.h>

#include "producer/device/device.hpp"

namespace offramp {

// Owns a cudaEvent_t that sleeps in wait(), and remembers whether it was ever recorded, which CUDA does not
// say.
class CudaEvent final : public Event {
  public:
    explicit CudaEvent(Device::Timing timing);
    ~CudaEvent() override;
    CudaEvent(const CudaEvent&) = delete;
    CudaEvent& operator=(const CudaEvent&) = delete;

    bool armed() const override { return armed_; }
    bool done() override;
    void wait() override;
    double seconds_since(Event& earlier) override;

    void record_on(cudaStream_t stream);
    cudaEvent_t handle() const { return event_; }

    // Broken contract when `event` is of another device.
    static CudaEvent& of(Event& event);

  private:
    cudaEvent_t event_ = nullptr;
    bool timed_ = false;
    bool armed_ = false;
};

}  // namespace offramp
