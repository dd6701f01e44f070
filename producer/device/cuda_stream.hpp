#pragma once

#include <functional>
#include <string>

#include "producer/device/cuda_event.hpp"
#include "producer/device/device.hpp"
#include "producer/device/driver_api.hpp"

namespace offramp {

// Owns a CUstream (non-blocking: the legacy default stream does not serialise it). The destructor waits for its work,
// so that memory may be freed after it. Borrows: the context, which is current to its maker and its users.
class CudaStream final : public Stream {
  public:
    CudaStream(driver::Context context, const std::string& name);
    ~CudaStream() override;
    CudaStream(const CudaStream&) = delete;
    CudaStream& operator=(const CudaStream&) = delete;

    void copy_to_host(std::byte* to, const void* from, std::size_t bytes) override;
    void copy_to_device(void* to, const std::byte* from, std::size_t bytes) override;
    void run_on_host(std::function<void()> work) override;
    void record(Event& event) override;
    void wait_for(Event& event) override;
    void synchronize() override;
    void* native() const override { return stream_; }

  private:
    driver::Context context_;
    CudaEvent idle_;  // cuStreamSynchronize would spin a core
    driver::StreamHandle stream_ = nullptr;
};

}  // namespace offramp
