#pragma once

#include <mutex>

#include "producer/slab/delivery.hpp"

namespace offramp {

// Keeps the books of a run whose outputs never leave the producer: what is published is done.
// Thread: any. Blocks: never.
class LocalDelivery final : public Delivery {
 public:
    // `warmup_batches`: left out of the steady figures.
    explicit LocalDelivery(std::uint64_t warmup_batches) : warmup_batches_(warmup_batches) {}

    // `done_at_ns`: CLOCK_MONOTONIC.
    void add(const PublishedSlab& slab, std::uint64_t done_at_ns);

    BrokerReport report() const override;
    void abort() override {}
    void join() override;

 private:
    const std::uint64_t warmup_batches_;
    mutable std::mutex mutex_;
    BrokerReport books_;
};

}  // namespace offramp
