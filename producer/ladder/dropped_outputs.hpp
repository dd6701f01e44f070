#pragma once

#include <functional>
#include <thread>

#include "common/base/bounded_queue.hpp"
#include "producer/egress/output_counters.hpp"
#include "producer/ladder/rung_outputs.hpp"

namespace offramp {

// Drops each batch on the device once it is computed. This measures computation alone, with the same input and host
// work: the limit of every rung. Owns: a thread that waits for the batches. Borrows: device.
class DroppedOutputs final : public RungOutputs {
  public:
    DroppedOutputs(Delivery delivery, Device& device, std::size_t depth, std::function<void()> on_failure);
    ~DroppedOutputs() override;

    bool submit(OutputBatch batch) override;
    void finish() override;
    void stop() override { computing_.close(); }
    OutputStats stats() const override { return counters_.stats(); }

  private:
    void wait_computed();
    void count(const OutputBatch& batch);

    Device& device_;
    std::function<void()> on_failure_;
    OutputCounters counters_;
    BoundedQueue<OutputBatch> computing_;
    std::exception_ptr failure_;  // written by the thread, read when it is joined
    std::thread thread_;
};

}  // namespace offramp
