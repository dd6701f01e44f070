#pragma once

#include "producer/device/device.hpp"
#include "producer/device/driver_api.hpp"

namespace offramp {

// Owns a CUevent that sleeps in wait(), and remembers whether it was ever recorded, which CUDA does not report.
// Borrows: the context, which is current to its maker.
class CudaEvent final : public Event {
  public:
    CudaEvent(driver::Context context, Device::Timing timing);
    ~CudaEvent() override;
    CudaEvent(const CudaEvent&) = delete;
    CudaEvent& operator=(const CudaEvent&) = delete;

    bool armed() const override { return armed_; }
    bool done() override;
    void wait() override;
    double seconds_since(Event& earlier) override;

    void record_on(driver::StreamHandle stream);
    driver::EventHandle handle() const { return event_; }

    // Broken contract when `event` is of another device.
    static CudaEvent& of(Event& event);

  private:
    driver::Context context_;
    driver::EventHandle event_ = nullptr;
    bool timed_ = false;
    bool armed_ = false;
};

}  // namespace offramp
