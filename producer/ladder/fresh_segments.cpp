#include "producer/ladder/fresh_segments.hpp"

#include <utility>

#include "common/base/trace.hpp"

namespace offramp {

FreshSegments::FreshSegments(const RunNames& names, std::uint32_t slabs, std::size_t slab_bytes, bool readable_by_group,
                             std::shared_ptr<SlabExchange> exchange)
    : names_(names),
      slab_bytes_(slab_bytes),
      readable_by_group_(readable_by_group),
      exchange_(std::move(exchange)),
      segments_(slabs) {
    require_shared_memory(slabs * slab_bytes,
                          std::to_string(slabs) + " segments of " + std::to_string(slab_bytes) + " bytes");
}

std::optional<WriteLoan> FreshSegments::open() {
    loan_ = exchange_->wait_for_slab();
    if (!loan_) return std::nullopt;
    auto& segment = segments_.at(loan_->slab());
    {
        const TraceRange range(TraceName::Unmap);
        segment.reset();
    }
    const TraceRange range(TraceName::Map);
    segment = std::make_unique<SharedRegion>(
        SharedRegion::create(names_.span(loan_->slab()), slab_bytes_, {.readable_by_group = readable_by_group_}));
    return WriteLoan::of_own_memory(loan_->slab(), loan_->generation(), segment->bytes());
}

}  // namespace offramp
