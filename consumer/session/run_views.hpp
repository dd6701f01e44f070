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

// Reads a run's ledger. The header is copied and checked once; each word is loaded on request, because the producer
// changes it.
//
// Borrows: the ledger object's bytes. Thread: any. Blocks: never.
class LedgerView {
  public:
    // Errors: ProtocolError names the field, the found and the expected value, if the magic, version or run is wrong,
    // or a count does not fit the object's size or the layout's limits.
    static LedgerView check(std::span<const std::byte> ledger, const RunNames& names);

    // The header as of the check; the producer's identity and epoch may have changed since.
    const LedgerHeader& header() const { return header_; }
    // The pid and start time of the producer that serves the run now.
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

    // True while the ledger waits for this delivery: no consumer has completed it or received the slab after it, and
    // its visibility timeout has not expired.
    bool is_current(const SlabTicket& ticket) const;
    // True while the ledger would accept this delivery's completion. This lasts beyond the visibility timeout, and
    // beyond redelivery to another consumer, until one of them completes the slab. Commit results as long as this
    // holds: no other consumer may.
    bool may_complete(const SlabTicket& ticket) const;

  private:
    LedgerView(std::span<const std::byte> ledger, const LedgerHeader& header) : ledger_(ledger), header_(header) {}

    std::span<const std::byte> ledger_;
    LedgerHeader header_;
};

// Maps the parts of a run that a consumer may access: the ledger and the slabs read-only, the heartbeat records
// writable. Write only your own heartbeat record.
//
// Owns: the mappings, for its lifetime; a span of slabs is mapped on first access. Thread: one. Blocks: while mapping.
// Errors: ProtocolError for a ledger of another layout or run, or an object smaller than the ledger states; SystemError
// if an object is gone because the run has ended.
class SlabMappings {
  public:
    // PerSlab: every filling has new memory, so each slab is mapped and unmapped.
    enum class Keeping { AllRun, PerSlab };
    static SlabMappings attach(const RunNames& names, Keeping keeping = Keeping::AllRun);

    const LedgerView& ledger() const { return ledger_; }
    // The heartbeat record of this index; the index must belong to the caller's session.
    HeartbeatRecord& heartbeat(std::uint32_t consumer_index);
    // Header and payload of one slab. Errors: ProtocolError when the run has no such slab.
    std::span<const std::byte> slab(std::uint32_t index);
    // Maps all pages of one more span, so that later reads do not fault. For an idle consumer. False if all spans are
    // mapped, or the next does not exist yet.
    bool map_next();
    // Call before giving a slab back that was read.
    void done_with(std::uint32_t index);
    // Unmaps every slab. No code of this process may read a slab afterwards.
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
