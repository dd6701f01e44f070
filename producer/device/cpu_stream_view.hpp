#pragma once

#include <functional>

#include "producer/device/device.hpp"

namespace offramp {

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

}  // namespace offramp
