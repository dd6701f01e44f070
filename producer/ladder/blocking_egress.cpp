#include "producer/ladder/blocking_egress.hpp"

#include <utility>

#include "common/base/error.hpp"
#include "common/base/trace.hpp"

namespace offramp {

BlockingEgress::BlockingEgress(Delivery delivery, Device& device, Stream& compute, const SlabLayout& layout,
                               DeviceTimeline& timeline, SlabWriter::HeaderFields header_fields,
                               std::unique_ptr<SlabPlace> place)
    : RungOutputs(std::move(delivery)),
      compute_(compute),
      layout_(layout),
      timeline_(timeline),
      header_fields_(std::move(header_fields)),
      events_(CopyEvents::make(device)),
      place_(std::move(place)) {}

bool BlockingEgress::submit(OutputBatch output) {
    counters_.submitted(output);
    const auto batch = std::make_shared<OutputBatch>(std::move(output));
    return batch->for_each_part(layout_.rows,
                                [&](std::uint32_t first, std::uint32_t rows) { return copy_part(batch, first, rows); });
}

bool BlockingEgress::copy_part(const std::shared_ptr<OutputBatch>& batch, std::uint32_t first_row, std::uint32_t rows) {
    auto loan = place_->open();
    if (!loan) return false;
    SlabFilling filling(std::move(*loan), layout_, header_fields_, compute_, events_);
    {
        const TraceRange range(TraceName::CopyToCpu, batch->number);
        expect(filling.add(batch, first_row, rows), "a part fits the slab that was laid out for it");
        filling.close();
        filling.wait_copied(counters_, timeline_);
    }
    counters_.published(filling.published());
    place_->deliver(filling.take_loan(), filling.published());
    return true;
}

}  // namespace offramp
