#pragma once

#include <span>

#include "common/wire/slab_ticket.hpp"
#include "producer/broker/broker_state.hpp"
#include "producer/broker/run_end.hpp"
#include "producer/ledger/slab_ledger.hpp"
#include "producer/pool/published_slab.hpp"

namespace offramp {

// The broker's part in a recovery (producer/recovery/): it goes on with the dead producer's totals and slabs, and that
// one's consumers come back. Until they do they are peers that are away: without a connection, but with a pidfd.
//
// Owns: nothing; what it finds goes to the state. Borrows: the state, the run's end; of the state: progress record,
// ledger, watch, port, clock, peers, slab_records, queue, totals. Thread: the broker's. Blocks: never. Errors: whoever
// goes on has a progress record (expect); SystemError when the system will not watch a process.
class ContinuedRun {
  public:
    ContinuedRun(BrokerState& state, const RunEnd& run_end) : state_(state), run_end_(run_end) {}

    // --- before the first step ---
    // Goes on with the progress record, with what is in flight, Ready slabs in this order, and with the incident
    // reports of dead letters.
    void adopt(std::span<const PublishedSlab> in_flight, std::span<const PublishedSlab> dead_letters);
    // Each keeps its index and what it holds until it comes back, or is proven dead; its visibility timeouts run
    // meanwhile. The dead are let go.
    void expect_consumers_back();

    // --- when they come ---
    // A peer that has answered, and whose token is that of a session of the previous producer: that goes on, under the
    // same number and consumer index, also where the peer never heard of it. Deliveries and releases are numbered from
    // 1 again. False when there is none, or it is another process's: nothing was done.
    bool rejoin(Peer& peer);

  private:
    void restore_slab_record(const PublishedSlab& slab);
    void expect_back(const SlabLedger::Admitted& previous);
    void keep_only(Peer& peer, std::span<const SlabTicket> kept);

    BrokerState& state_;
    const RunEnd& run_end_;
};

}  // namespace offramp
