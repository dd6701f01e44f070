#pragma once

#include <cstdint>
#include <span>

#include "common/protocol/ledger_layout.hpp"
#include "common/shm/run_objects.hpp"
#include "common/shm/shared_region.hpp"
#include "common/slab/slab_layout.hpp"
#include "producer/slab/slab_ledger.hpp"

namespace offramp {

// Owns the ledger's and the cells' shared-memory objects of one run, and says where in them what lies.
// Thread: the constructor's; afterwards the broker's. Errors: as SharedRegion::create.
class RunMemory {
 public:
    RunMemory(const RunNames& names, const SlabLayout& layout, const SpanPlan& plan, std::uint32_t consumer_capacity,
              std::uint32_t epoch, bool readable_by_group);

    SlabLedger::Memory ledger();
    std::span<const ConsumerCell> cells() const;

 private:
    std::uint32_t slab_count_;
    std::uint32_t consumer_capacity_;
    SharedRegion ledger_;
    SharedRegion cells_;
};

}  // namespace offramp
