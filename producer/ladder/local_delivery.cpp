#include "producer/ladder/local_delivery.hpp"

namespace offramp {

void LocalDelivery::add(const PublishedSlab& slab, std::uint64_t done_at_ns) {
    if (on_completed_) on_completed_(slab);
    const std::lock_guard lock(mutex_);
    books_.published.add(slab);
    books_.completed.add(slab);
    books_.last_release_ns = done_at_ns;
    if (books_.first_release_ns == 0) books_.first_release_ns = done_at_ns;
    if (books_.steady_since_ns == 0 && books_.completed.batches >= warmup_batches_) {
        books_.steady_since_ns = done_at_ns;
        books_.before_steady = books_.completed;
    }
}

BrokerReport LocalDelivery::report() const {
    const std::lock_guard lock(mutex_);
    return books_;
}

void LocalDelivery::join() {
    const std::lock_guard lock(mutex_);
    books_.ended = true;
}

}  // namespace offramp
