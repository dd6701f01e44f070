#pragma once

#include <mutex>

#include "producer/broker/broker_report.hpp"
#include "producer/egress/run_listeners.hpp"
#include "producer/pool/published_slab.hpp"

namespace offramp {

// Totals of a run whose outputs never leave the producer: published means completed.
// Thread: any. Blocks: never.
class LocalDelivery {
  public:
    // `warmup_batches`: excluded from the steady-state stats. Borrows the listener.
    LocalDelivery(std::uint64_t warmup_batches, ItemListener& items) : warmup_batches_(warmup_batches), items_(items) {}

    // Call it before a slab is processed.
    void begin(const PublishedSlab& slab) { items_.before_publishing(slab); }

    // `done_at_ns`: CLOCK_MONOTONIC.
    void add(const PublishedSlab& slab, std::uint64_t done_at_ns);

    BrokerReport report() const;
    void join();

  private:
    const std::uint64_t warmup_batches_;
    ItemListener& items_;
    mutable std::mutex mutex_;
    BrokerReport totals_;
};

}  // namespace offramp
