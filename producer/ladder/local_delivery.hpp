#pragma once

#include <functional>
#include <mutex>

#include "producer/broker/broker_report.hpp"
#include "producer/pool/published_slab.hpp"

namespace offramp {

// Totals of a run whose outputs never leave the producer: published means completed.
// Thread: any. Blocks: never.
class LocalDelivery {
  public:
    // `warmup_batches`: excluded from the steady-state stats. `on_completed`: called for each completed slab; `before`:
    // called by begin().
    explicit LocalDelivery(std::uint64_t warmup_batches, std::function<void(const PublishedSlab&)> on_completed = {},
                           std::function<void(const PublishedSlab&)> before = {})
        : warmup_batches_(warmup_batches), on_completed_(std::move(on_completed)), before_(std::move(before)) {}

    // Call it before a slab is processed.
    void begin(const PublishedSlab& slab) {
        if (before_) before_(slab);
    }

    // `done_at_ns`: CLOCK_MONOTONIC.
    void add(const PublishedSlab& slab, std::uint64_t done_at_ns);

    BrokerReport report() const;
    void join();

  private:
    const std::uint64_t warmup_batches_;
    const std::function<void(const PublishedSlab&)> on_completed_;
    const std::function<void(const PublishedSlab&)> before_;
    mutable std::mutex mutex_;
    BrokerReport totals_;
};

}  // namespace offramp
