#include "consumer/session/slab_mappings.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/trace.hpp"

namespace offramp {

SlabMappings SlabMappings::attach(const RunNames& names, Keeping keeping) {
    auto region = SharedRegionView::attach(names.ledger(), SharedRegionView::Access::ReadOnly, sizeof(LedgerHeader));
    const LedgerView ledger = LedgerView::check(region.bytes(), names);
    return {names, keeping, std::move(region), ledger};
}

SlabMappings::SlabMappings(const RunNames& names, Keeping keeping, SharedRegionView ledger_region,
                           const LedgerView& ledger)
    : names_(names),
      keeping_(keeping),
      ledger_region_(std::move(ledger_region)),
      ledger_(ledger),
      plan_(ledger.spans()),
      heartbeats_(
          SharedRegionView::attach(names.cells(), SharedRegionView::Access::ReadWrite, ledger.heartbeats_bytes())),
      spans_(plan_.span_count) {}

HeartbeatRecord& SlabMappings::heartbeat(std::uint32_t consumer_index) {
    expect(consumer_index < ledger_.header().consumer_capacity, "an index of the table of consumers");
    return reinterpret_cast<HeartbeatRecord*>(heartbeats_.writable_bytes().data())[consumer_index];
}

std::span<const std::byte> SlabMappings::slab(std::uint32_t index) {
    if (index >= plan_.slab_count)
        throw ProtocolError("the ticket names slab " + std::to_string(index) + ", but the run has only " +
                            std::to_string(plan_.slab_count));
    return span_region(plan_.span_of(index)).bytes().subspan(plan_.offset_in_span(index), plan_.slab_bytes);
}

bool SlabMappings::map_next() {
    if (keeping_ == Keeping::PerSlab) return false;
    const auto next = std::find_if(spans_.begin(), spans_.end(), [](const auto& span) { return !span; });
    if (next == spans_.end()) return false;
    try {
        span_region(static_cast<std::uint32_t>(next - spans_.begin()));
        return true;
    } catch (const Error&) {
        return false;  // the producer is still at it
    }
}

void SlabMappings::done_with(std::uint32_t index) {
    if (keeping_ == Keeping::AllRun) return;
    const TraceRange range(TraceName::Unmap);
    spans_[plan_.span_of(index)].reset();
}

void SlabMappings::unmap_slabs() {
    for (auto& span : spans_) span.reset();
}

const SharedRegionView& SlabMappings::span_region(std::uint32_t index) {
    std::optional<SharedRegionView>& region = spans_[index];
    if (!region) {
        const TraceRange range(TraceName::Map);
        region =
            SharedRegionView::attach(names_.span(index), SharedRegionView::Access::ReadOnly, plan_.span_bytes(index));
        if (keeping_ == Keeping::AllRun) region->populate();
    }
    return *region;
}

}  // namespace offramp
