#include "producer/ladder/compute_stream_egress.hpp"

#include <utility>

#include "common/base/error.hpp"
#include "common/base/trace.hpp"

namespace offramp {

ComputeStreamEgress::ComputeStreamEgress(BrokerThread& broker, Device& device, Stream& compute,
                                         std::shared_ptr<SlabExchange> exchange, const SlabLayout& layout,
                                         DeviceTimeline& timeline, SlabWriter::HeaderFields header_fields,
                                         std::uint32_t slab_count, std::function<void()> on_failure)
    : RungOutputs({.broker = &broker, .local = nullptr}),
      compute_(compute),
      exchange_(std::move(exchange)),
      layout_(layout),
      header_fields_(std::move(header_fields)),
      events_(slab_count),
      completion_(device, exchange_, counters_, timeline, slab_count, std::move(on_failure)) {
    for (CopyEvents& events : events_) events = CopyEvents::make(device);
}

ComputeStreamEgress::~ComputeStreamEgress() { stop(); }

void ComputeStreamEgress::stop() {
    exchange_->stop();
    completion_.close();
}

bool ComputeStreamEgress::submit(OutputBatch output) {
    counters_.submitted(output);
    const auto batch = std::make_shared<OutputBatch>(std::move(output));
    const bool taken = batch->for_each_part(
        layout_.rows, [&](std::uint32_t first, std::uint32_t rows) { return copy_part(batch, first, rows); });
    completion_.rethrow_failure();
    return taken;
}

bool ComputeStreamEgress::copy_part(const std::shared_ptr<OutputBatch>& batch, std::uint32_t first_row,
                                    std::uint32_t rows) {
    auto loan = exchange_->wait_for_slab();
    if (!loan) return false;
    CopyEvents& events = events_[loan->slab()];
    auto filling = std::make_unique<SlabFilling>(std::move(*loan), layout_, header_fields_, compute_, events);
    {
        const TraceRange range(TraceName::CopyToCpu, batch->number);
        expect(filling->add(batch, first_row, rows), "a part fits the slab that was laid out for it");
        filling->close();
    }
    const TraceRange range(TraceName::QueueOutput, batch->number);
    return completion_.hand_over(std::move(filling));
}

}  // namespace offramp
