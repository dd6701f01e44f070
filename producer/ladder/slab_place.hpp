#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/trace.hpp"
#include "common/shm/run_objects.hpp"
#include "common/shm/shared_region.hpp"
#include "consumer/processors/processor.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/egress/run_listeners.hpp"
#include "producer/pool/slab_exchange.hpp"

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

// Memory for a slab of a blocking egress, and its delivery. One implementation per kind of memory.
// Thread: the model's; stop() from any. Blocks: open() until there is memory; deliver() while the slab is processed
// here.
class SlabPlace {
  public:
    virtual ~SlabPlace() = default;
    // Nothing after stop().
    virtual std::optional<WriteLoan> open() = 0;
    // The copies are done.
    virtual void deliver(WriteLoan loan, const PublishedSlab& published) = 0;
    // Nothing more will be opened.
    virtual void finish() = 0;
    virtual void stop() = 0;
};

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

// A new shared-memory object for each filling, with the name of the slab's span; the copy faults its pages in. Shows
// the cost without a pool: reserving, faulting and unmapping every time, on both sides. Owns: the objects, until they
// are replaced. Borrows: names, exchange. Errors: SharedMemoryFull, as for a pool.
class FreshSegments final : public SlabPlace {
  public:
    FreshSegments(const RunNames& names, std::uint32_t slabs, std::size_t slab_bytes, bool readable_by_group,
                  std::shared_ptr<SlabExchange> exchange);

    std::optional<WriteLoan> open() override;
    void deliver(WriteLoan, const PublishedSlab& published) override {
        const TraceRange range(TraceName::QueueOutput, published.first_batch);
        exchange_->publish(*std::exchange(loan_, std::nullopt), published);
    }
    void finish() override {
        loan_.reset();  // of a copy that failed
        exchange_->finish();
    }
    void stop() override { exchange_->stop(); }

  private:
    const RunNames& names_;
    const std::size_t slab_bytes_;
    const bool readable_by_group_;
    std::shared_ptr<SlabExchange> exchange_;
    std::vector<std::unique_ptr<SharedRegion>> segments_;
    std::optional<WriteLoan> loan_;  // the slab that is being filled
};

// New private memory for every slab, processed in place: no pool, no other process, no overlap.
// Owns: the processor, the memory of one slab. Borrows: delivery.
class PrivatePlace final : public SlabPlace {
  public:
    PrivatePlace(std::size_t slab_bytes, std::uint64_t run_nonce, std::uint32_t epoch,
                 std::unique_ptr<Processor> processor, LocalDelivery& delivery);

    std::optional<WriteLoan> open() override;
    void deliver(WriteLoan loan, const PublishedSlab& published) override;
    void finish() override {}
    void stop() override { stopped_ = true; }

  private:
    const std::size_t slab_bytes_;
    const std::uint64_t run_nonce_;
    const std::uint32_t epoch_;
    std::unique_ptr<Processor> processor_;
    LocalDelivery& delivery_;
    std::unique_ptr<std::byte[]> bytes_;
    std::uint64_t generation_ = 0;
    std::atomic<bool> stopped_{false};
};

}  // namespace offramp
