#include "producer/broker/intake.hpp"

#include <cstddef>
#include <cstdint>

#include "common/base/trace.hpp"

namespace offramp {

void Intake::take_published() {
    const SlabExchange::Taken taken = state_.exchange.take();
    for (const std::uint32_t slab : taken.abandoned) state_.ledger.abandon(slab);
    publish(taken.published);
    if (taken.finished) run_end_.egress_finished();
}

void Intake::publish(std::span<const PublishedSlab> slabs) {
    for (const PublishedSlab& published : slabs) {
        const TraceRange range(TraceName::Publish, published.first_batch);
        state_.count_step(CountedStep::Publish, published);
        state_.ledger.publish(published.slab);
        state_.slab_records[published.slab] = {.published = published};
        state_.totals.published += published.totals();
        state_.ready.append(published.slab);
    }
}

bool Intake::grant_slabs() {
    const std::uint32_t wanted = state_.exchange.grants_wanted(state_.ledger.slab_count());
    grants_.clear();
    while (grants_.size() < wanted) {
        const auto slab = state_.ledger.acquire(state_.memory.usable);
        if (!slab) break;
        grants_.push_back({*slab, state_.ledger.word(*slab).generation, state_.memory.bytes_of(*slab)});
    }
    state_.exchange.grant(grants_);
    // A pool that is still being made is not a shortage.
    is_short_ = grants_.size() < wanted && state_.ledger.count(SlabState::Free) == 0;
    return !grants_.empty();
}

void Intake::report_shortage() {
    if (is_short_) state_.exchange.note_shortage();
}

}  // namespace offramp
