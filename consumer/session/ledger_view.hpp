#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/shm/run_objects.hpp"
#include "common/wire/ledger_layout.hpp"
#include "common/wire/slab_layout.hpp"
#include "common/wire/slab_ticket.hpp"

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

}  // namespace offramp
