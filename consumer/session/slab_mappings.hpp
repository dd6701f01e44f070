#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/shm/run_objects.hpp"
#include "common/shm/shared_region.hpp"
#include "common/wire/ledger_layout.hpp"
#include "consumer/session/ledger_view.hpp"

namespace offramp {

// Maps what a consumer may see of a run: the ledger and the slabs read-only, the heartbeat records writable (of which
// it writes its own only).
//
// Owns: the mappings, for its lifetime; a span of slabs is mapped when the first of its slabs is asked for. Thread:
// one. Blocks: while mapping. Errors: ProtocolError for a ledger of another layout or run, or an object that is smaller
// than in the ledger; SystemError if an object is gone, that is if the run has ended.
class SlabMappings {
  public:
    // PerSlab: memory is made anew for every filling, so it is mapped and unmapped with each.
    enum class Keeping { AllRun, PerSlab };
    static SlabMappings attach(const RunNames& names, Keeping keeping = Keeping::AllRun);

    const LedgerView& ledger() const { return ledger_; }
    // The heartbeat record of this index; the caller owns the session that the index belongs to.
    HeartbeatRecord& heartbeat(std::uint32_t consumer_index);
    // Header and payload of one slab. ProtocolError when the run has no such slab.
    std::span<const std::byte> slab(std::uint32_t index);
    // Maps one more span, every page of it, for a consumer that has nothing to do: no later read faults. False when all
    // are mapped, or the next is not made yet.
    bool map_next();
    // Called before a slab that was read is given back.
    void done_with(std::uint32_t index);
    // Unmaps every slab: nothing of this process reads one any more.
    void unmap_slabs();

  private:
    SlabMappings(const RunNames& names, Keeping keeping, SharedRegionView ledger_region, const LedgerView& ledger);
    const SharedRegionView& span_region(std::uint32_t index);

    RunNames names_;
    Keeping keeping_;
    SharedRegionView ledger_region_;
    LedgerView ledger_;
    SpanPlan plan_;
    SharedRegionView heartbeats_;
    std::vector<std::optional<SharedRegionView>> spans_;
};

}  // namespace offramp
