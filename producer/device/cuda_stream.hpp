#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

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

// Owns a CUstream (non-blocking: the legacy default stream does not serialise it). The destructor waits for its work,
// so that memory may be freed after it. Borrows: the context, which is current to its maker and its users.
class CudaStream final : public Stream {
  public:
    CudaStream(driver::Context context, const std::string& name, Device::Priority priority);
    ~CudaStream() override;
    CudaStream(const CudaStream&) = delete;
    CudaStream& operator=(const CudaStream&) = delete;

    void copy_to_host(std::byte* to, const void* from, std::size_t bytes) override;
    void copy_to_device(void* to, const std::byte* from, std::size_t bytes) override;
    void copy_all_to_host(std::span<const HostCopy> copies) override;
    void run_on_host(std::function<void()> work) override;
    void record(Event& event) override;
    void wait_for(Event& event) override;
    void synchronize() override;
    void* native() const override { return stream_; }

  private:
    driver::Context context_;
    std::vector<driver::Address> batch_to_, batch_from_;
    std::vector<std::size_t> batch_bytes_;
    CudaEvent idle_;  // cuStreamSynchronize would spin a core
    driver::StreamHandle stream_ = nullptr;
};

// Submits Stream's work to any CUDA stream. The stream's context is the calling thread's. Errors: CudaError.
void give_copy_to_host(driver::StreamHandle stream, std::byte* to, const void* from, std::size_t bytes);
void give_copy_to_device(driver::StreamHandle stream, void* to, const std::byte* from, std::size_t bytes);
void give_host_work(driver::StreamHandle stream, std::function<void()> work);
void give_wait(driver::StreamHandle stream, const CudaEvent& awaited);

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
