#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "producer/device/device.hpp"

namespace offramp {

// A stream of the CPU backend: one thread that runs its queue in order. The destructor waits for the queued work.
class CpuStream final : public Stream {
  public:
    explicit CpuStream(const std::string& name);
    ~CpuStream() override;
    CpuStream(const CpuStream&) = delete;
    CpuStream& operator=(const CpuStream&) = delete;

    void copy_to_host(std::byte* to, const void* from, std::size_t bytes) override;
    void copy_to_device(void* to, const std::byte* from, std::size_t bytes) override;
    void run_on_host(std::function<void()> work) override;
    void record(Event& event) override;
    void wait_for(Event& event) override;
    void synchronize() override;
    void* native() const override { return nullptr; }

  private:
    void enqueue(std::function<void()> work);
    void run(const std::string& name);

    std::mutex mutex_;
    std::condition_variable given_;
    std::deque<std::function<void()>> queue_;
    bool ending_ = false;
    std::thread thread_;
};

// Represents a caller's stream on the CPU, where the caller computes on its own thread and has finished when it
// submits. Work is done within the call.
// Blocks: each call, until it is done; wait_for(), until the event is.
class CpuStreamView final : public Stream {
  public:
    void copy_to_host(std::byte* to, const void* from, std::size_t bytes) override;
    void copy_to_device(void* to, const std::byte* from, std::size_t bytes) override;
    void run_on_host(std::function<void()> work) override { work(); }
    void record(Event& event) override;
    void wait_for(Event& event) override;
    void synchronize() override {}
    void* native() const override { return nullptr; }
};

// An event of the CPU backend. Recordings are numbered; done means that the stream has passed the latest one.
class CpuEvent final : public Event {
  public:
    explicit CpuEvent(Device::Timing timing) : timed_(timing == Device::Timing::On) {}

    bool armed() const override;
    bool done() override;
    void wait() override;
    double seconds_since(Event& earlier) override;

    // Shared with the streams that have queued it: like CUDA's, an event may be destroyed before its recording is
    // reached.
    struct Progress {
        std::mutex mutex;
        std::condition_variable changed;
        std::uint64_t recorded = 0;
        std::uint64_t reached = 0;
        std::chrono::steady_clock::time_point reached_at;

        std::uint64_t begin_recording();
        std::uint64_t latest_recording();
        void reach(std::uint64_t recording);
        void wait_until_reached(std::uint64_t recording);
    };
    const std::shared_ptr<Progress>& progress() const { return progress_; }

    // Broken contract when `event` is of another device.
    static CpuEvent& of(Event& event);

  private:
    std::shared_ptr<Progress> progress_ = std::make_shared<Progress>();
    bool timed_;
};

}  // namespace offramp
