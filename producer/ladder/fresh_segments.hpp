#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/trace.hpp"
#include "common/shm/run_objects.hpp"
#include "common/shm/shared_region.hpp"
#include "producer/ladder/slab_place.hpp"
#include "producer/pool/slab_exchange.hpp"

namespace offramp {

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

}  // namespace offramp
