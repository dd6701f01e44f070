#include "consumer/session/slab_mappings.hpp"

#include <string>
#include <utility>

#include "common/base/error.hpp"

namespace offramp {

SlabMappings SlabMappings::attach(const RunNames& names) {
    auto region =
        SharedRegionView::attach(names.ledger(), SharedRegionView::Access::ReadOnly, sizeof(LedgerHeader));
    const LedgerView ledger = LedgerView::check(region.bytes(), names);
    return {names, std::move(region), ledger};
}

SlabMappings::SlabMappings(const RunNames& names, SharedRegionView ledger_region, const LedgerView& ledger)
    : names_(names),
      ledger_region_(std::move(ledger_region)),
      ledger_(ledger),
      plan_(ledger.spans()),
      cells_(
          SharedRegionView::attach(names.cells(), SharedRegionView::Access::ReadWrite, ledger.cells_bytes())),
      spans_(plan_.span_count) {}

ConsumerCell& SlabMappings::cell(std::uint32_t slot) {
    expect(slot < ledger_.header().consumer_capacity, "a place of the table of consumers");
    return reinterpret_cast<ConsumerCell*>(cells_.writable_bytes().data())[slot];
}

std::span<const std::byte> SlabMappings::slab(std::uint32_t index) {
    if (index >= plan_.slab_count)
        throw ProtocolError("the ticket names slab " + std::to_string(index) + ", but the run has only " +
                            std::to_string(plan_.slab_count));
    return span_region(plan_.span_of(index)).bytes().subspan(plan_.offset_in_span(index), plan_.slab_bytes);
}

void SlabMappings::map_all() {
    for (std::uint32_t i = 0; i < plan_.span_count; ++i) span_region(i);
}

const SharedRegionView& SlabMappings::span_region(std::uint32_t index) {
    std::optional<SharedRegionView>& region = spans_[index];
    if (!region)
        region = SharedRegionView::attach(names_.span(index), SharedRegionView::Access::ReadOnly,
                                          plan_.span_bytes(index));
    return *region;
}

}  // namespace offramp
