#include "producer/ladder/rung_outputs.hpp"

#include <algorithm>
#include <ranges>
#include <utility>
#include <vector>

#include "common/base/clock.hpp"
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

DroppedOutputs::DroppedOutputs(Delivery delivery, Device& device, std::size_t depth, std::function<void()> on_failure)
    : RungOutputs(std::move(delivery)),
      device_(device),
      on_failure_(std::move(on_failure)),
      computing_(depth),
      thread_([this] { wait_computed(); }) {}

DroppedOutputs::~DroppedOutputs() {
    stop();
    if (thread_.joinable()) thread_.join();
}

bool DroppedOutputs::submit(OutputBatch batch) {
    counters_.submitted(batch);
    return computing_.push(std::move(batch));
}

void DroppedOutputs::finish() {
    computing_.close();
    if (thread_.joinable()) thread_.join();
    if (failure_) std::rethrow_exception(failure_);
}

void DroppedOutputs::count(const OutputBatch& batch) {
    PublishedSlab published{.first_batch = batch.number, .batches_ended = 1};
    for (const RowInfo& row : batch.rows) published.samples += row.empty ? 0 : 1;
    counters_.published(published);
    local_delivery().add(published, now_ns());
}

void DroppedOutputs::wait_computed() {
    name_this_thread("computed");
    try {
        device_.use_on_this_thread();
        std::vector<OutputBatch> computed;
        while (auto batch = computing_.pop()) {
            // One wait for all submitted batches: a wait costs more than the computation of a small batch.
            for (; batch; batch = computing_.try_pop()) computed.push_back(std::move(*batch));
            const auto newest_first = computed | std::views::reverse;
            const auto last =
                std::ranges::find_if(newest_first, [](const OutputBatch& one) { return one.computed != nullptr; });
            if (last != newest_first.end()) last->computed->wait();
            for (const OutputBatch& one : computed) count(one);
            computed.clear();
        }
    } catch (...) {
        failure_ = std::current_exception();
        computing_.abandon();
        on_failure_();
    }
}

}  // namespace offramp
