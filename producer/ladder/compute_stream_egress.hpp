#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "common/wire/slab_layout.hpp"
#include "producer/egress/output_counters.hpp"
#include "producer/egress/slab_completion.hpp"
#include "producer/ladder/rung_outputs.hpp"

namespace offramp {

// Copies asynchronously, but on the compute stream. The host runs ahead, and another thread publishes; the next batch's
// computation still waits for the copy. Owns: the completion's thread, events. Borrows: device, compute stream,
// exchange, layout, timeline.
class ComputeStreamEgress final : public RungOutputs {
  public:
    ComputeStreamEgress(BrokerThread& broker, Device& device, Stream& compute, std::shared_ptr<SlabExchange> exchange,
                        const SlabLayout& layout, DeviceTimeline& timeline, SlabWriter::HeaderFields header_fields,
                        std::uint32_t slab_count, std::function<void()> on_failure);
    ~ComputeStreamEgress() override;

    bool submit(OutputBatch batch) override;
    void finish() override { completion_.finish(); }
    void stop() override;
    OutputStats stats() const override { return counters_.stats(); }

  private:
    bool copy_part(const std::shared_ptr<OutputBatch>& batch, std::uint32_t first_row, std::uint32_t rows);

    Stream& compute_;
    std::shared_ptr<SlabExchange> exchange_;
    const SlabLayout& layout_;
    const SlabWriter::HeaderFields header_fields_;
    OutputCounters counters_;
    std::vector<CopyEvents> events_;  // by slab
    SlabCompletion completion_;
};

}  // namespace offramp
