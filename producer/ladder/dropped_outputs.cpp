#include "producer/ladder/dropped_outputs.hpp"

#include <algorithm>
#include <ranges>
#include <utility>
#include <vector>

#include "common/base/clock.hpp"
#include "common/base/trace.hpp"

namespace offramp {

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
