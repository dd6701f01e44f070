#pragma once

#include <memory>
#include <utility>

#include "common/base/trace.hpp"
#include "producer/ladder/slab_place.hpp"
#include "producer/pool/slab_exchange.hpp"

namespace offramp {

// Slabs created once for the whole run, granted by the broker and published to consumers. Borrows nothing.
class PooledPlace final : public SlabPlace {
  public:
    explicit PooledPlace(std::shared_ptr<SlabExchange> exchange) : exchange_(std::move(exchange)) {}

    std::optional<WriteLoan> open() override { return exchange_->wait_for_slab(); }
    void deliver(WriteLoan loan, const PublishedSlab& published) override {
        const TraceRange range(TraceName::QueueOutput, published.first_batch);
        exchange_->publish(std::move(loan), published);
    }
    void finish() override { exchange_->finish(); }
    void stop() override { exchange_->stop(); }

  private:
    std::shared_ptr<SlabExchange> exchange_;
};

}  // namespace offramp
