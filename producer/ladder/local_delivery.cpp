#include "producer/ladder/local_delivery.hpp"

namespace offramp {

void LocalDelivery::add(const PublishedSlab& slab, std::uint64_t done_at_ns) {
    if (on_completed_) on_completed_(slab);
    const std::lock_guard lock(mutex_);
    totals_.published.add(slab);
    totals_.completed.add(slab);
    totals_.last_release_ns = done_at_ns;
    if (totals_.first_release_ns == 0) totals_.first_release_ns = done_at_ns;
    if (totals_.steady_since_ns == 0 && totals_.completed.batches >= warmup_batches_) {
        totals_.steady_since_ns = done_at_ns;
        totals_.before_steady = totals_.completed;
    }
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
