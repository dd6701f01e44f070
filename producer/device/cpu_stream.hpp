#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
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

}  // namespace offramp
