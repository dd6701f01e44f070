#include "producer/broker/intake.hpp"

#include <cstddef>
#include <cstdint>

#include "common/base/trace.hpp"

namespace offramp {

void Intake::take_published() {
    const SlabExchange::Taken taken = exchange_.take();
    for (const std::uint32_t slab : taken.abandoned) ledger_.abandon(slab);
    publish(taken.published);
    if (taken.finished) run_end_.egress_finished();
}

void Intake::publish(std::span<const PublishedSlab> slabs) {
    for (const PublishedSlab& published : slabs) {
        const TraceRange range(TraceName::Publish, published.first_batch);
        count_step(progress_, CountedStep::Publish, published, ledger_);
        ledger_.publish(published.slab);
        slab_records_[published.slab] = {.published = published};
        totals_.published += published.totals();
        ready_.append(published.slab);
    }
}

bool Intake::grant_slabs() {
    const std::uint32_t wanted = exchange_.grants_wanted(ledger_.slab_count());
    grants_.clear();
    while (grants_.size() < wanted) {
        const auto slab = ledger_.acquire(memory_.usable);
        if (!slab) break;
        grants_.push_back({*slab, ledger_.word(*slab).generation, memory_.bytes_of(*slab)});
    }
    exchange_.grant(grants_);
    // A pool that is still being made is not a shortage.
    is_short_ = grants_.size() < wanted && ledger_.count(SlabState::Free) == 0;
    return !grants_.empty();
}

void Intake::report_shortage() {
    if (is_short_) exchange_.note_shortage();
}

}  // namespace offramp
