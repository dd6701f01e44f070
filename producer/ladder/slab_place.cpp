#include "producer/ladder/slab_place.hpp"

#include <utility>

#include "common/base/clock.hpp"
#include "common/base/trace.hpp"
#include "common/wire/slab_view.hpp"

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
    return WriteLoan(loan_->slab(), loan_->generation(), segment->bytes());
}

PrivatePlace::PrivatePlace(std::size_t slab_bytes, std::uint64_t run_nonce, std::uint32_t epoch,
                           std::unique_ptr<Processor> processor, LocalDelivery& delivery)
    : slab_bytes_(slab_bytes),
      run_nonce_(run_nonce),
      epoch_(epoch),
      processor_(std::move(processor)),
      delivery_(delivery) {}

std::optional<WriteLoan> PrivatePlace::open() {
    if (stopped_) return std::nullopt;
    bytes_ = std::make_unique_for_overwrite<std::byte[]>(slab_bytes_);
    return WriteLoan(0, ++generation_, {bytes_.get(), slab_bytes_});
}

void PrivatePlace::deliver(WriteLoan loan, const PublishedSlab& published) {
    {
        const TraceRange range(TraceName::ProcessOutput, published.first_batch);
        delivery_.begin(published);
        const SlabTicket ticket{.epoch = epoch_, .slab = loan.slab(), .generation = loan.generation(), .attempt = 1};
        processor_->process(
            SlabContents::read(loan.bytes(), run_nonce_, ticket), [] {}, [] { return true; });
    }
    bytes_.reset();
    delivery_.add(published, now_ns());
}

void LocalDelivery::add(const PublishedSlab& slab, std::uint64_t done_at_ns) {
    items_.on_completed(slab);
    const std::lock_guard lock(mutex_);
    totals_.published += slab.totals();
    totals_.complete(slab.totals(), done_at_ns, warmup_batches_);
}

BrokerReport LocalDelivery::report() const {
    const std::lock_guard lock(mutex_);
    return totals_;
}

void LocalDelivery::join() {
    const std::lock_guard lock(mutex_);
    totals_.ended = true;
}

}  // namespace offramp
