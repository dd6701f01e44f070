#include "producer/ladder/local_delivery.hpp"

namespace offramp {

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
