#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/shm/run_objects.hpp"
#include "common/shm/shared_region.hpp"
#include "common/wire/ledger_layout.hpp"
#include "common/wire/slab_layout.hpp"

namespace offramp {

// Reads a run's ledger. The header is copied and checked once; the words are loaded when asked for, as the
// producer changes them.
//
// Borrows: the ledger object's bytes. Thread: any. Blocks: never.
class LedgerView {
  public:
    // Errors: ProtocolError names the field, the found and the expected value, for a wrong magic, version or run, and
    // for any count that does not fit the object's size or the layout's limits.
    static LedgerView check(std::span<const std::byte> ledger, const RunNames& names);

    // In its state at the check; the producer's name and epoch in it may have changed since.
    const LedgerHeader& header() const { return header_; }
    // The producer that serves the run now, by its pid and start time.
    struct Producer {
        std::uint64_t pid = 0;
        std::uint64_t start_time = 0;
    };
    Producer producer() const;
    SpanPlan spans() const;
    std::size_t heartbeats_bytes() const { return header_.consumer_capacity * sizeof(HeartbeatRecord); }

    // `slab` is below slab_count, `consumer_index` below consumer_capacity.
    SlabWord slab_word(std::uint32_t slab) const;
    std::uint64_t session_in(std::uint32_t consumer_index) const;

    // True while this delivery is the one that the ledger waits for: no consumer has completed it or been given
    // the slab after it, and its visibility timeout has not run out.
    bool is_current(const SlabTicket& ticket) const;
    // True while the ledger would take this delivery's completion, of a slab that is held: also after its visibility
    // timeout ran out and another consumer was given the slab, until one of them has completed it. Results must be
    // committed as long as this holds: no other consumer may.
    bool may_complete(const SlabTicket& ticket) const;

  private:
    LedgerView(std::span<const std::byte> ledger, const LedgerHeader& header) : ledger_(ledger), header_(header) {}

    std::span<const std::byte> ledger_;
    LedgerHeader header_;
};

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
