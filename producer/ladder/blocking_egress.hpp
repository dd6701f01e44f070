#pragma once

#include <memory>

#include "common/wire/slab_layout.hpp"
#include "producer/egress/output_counters.hpp"
#include "producer/egress/slab_filling.hpp"
#include "producer/ladder/rung_outputs.hpp"
#include "producer/ladder/slab_place.hpp"

namespace offramp {

// Copies on the compute stream and waits for each copy on the model's thread: nothing overlaps.
// Owns: the place, one pair of events. Borrows: device, compute stream, layout, timeline.
class BlockingEgress final : public RungOutputs {
  public:
    BlockingEgress(Delivery delivery, Device& device, Stream& compute, const SlabLayout& layout,
                   DeviceTimeline& timeline, SlabWriter::HeaderFields header_fields, std::unique_ptr<SlabPlace> place);

    bool submit(OutputBatch batch) override;
    void finish() override { place_->finish(); }
    void stop() override { place_->stop(); }
    OutputStats stats() const override { return counters_.stats(); }

  private:
    bool copy_part(const std::shared_ptr<OutputBatch>& batch, std::uint32_t first_row, std::uint32_t rows);

    Stream& compute_;
    const SlabLayout& layout_;
    DeviceTimeline& timeline_;
    const SlabWriter::HeaderFields header_fields_;
    CopyEvents events_;
    std::unique_ptr<SlabPlace> place_;
    OutputCounters counters_;
};

}  // namespace offramp
