#pragma once

#include <cstdint>
#include <span>

#include "common/base/clock.hpp"
#include "common/transport/ports.hpp"
#include "common/wire/ledger_layout.hpp"
#include "common/wire/run_progress.hpp"
#include "producer/broker/broker_options.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/broker/peer_table.hpp"
#include "producer/broker/peer_watch.hpp"
#include "producer/broker/ready_queue.hpp"
#include "producer/broker/refusals.hpp"
#include "producer/broker/slab_records.hpp"
#include "producer/ledger/slab_ledger.hpp"
#include "producer/pool/slab_exchange.hpp"

namespace offramp {

// State that the parts of a broker share: the world they act on, and the records of consumers and slabs. A part keeps
// to itself what only it needs.
//
// Owns: peers, slab_records, queue, totals. Borrows: ledger, port, exchange, watch, clock, heartbeat records. Thread:
// the one that has the broker's turn (BrokerThread), called "the broker's" in the parts. Blocks: never. Errors: none.
struct BrokerState {
    BrokerState(SlabLedger& its_ledger, BrokerPort& its_port, SlabExchange& its_exchange, PeerWatch& its_watch,
                const Clock& its_clock, std::span<const HeartbeatRecord> heartbeats, SlabMemory its_memory,
                BrokerOptions its_options);
    BrokerState(const BrokerState&) = delete;
    BrokerState& operator=(const BrokerState&) = delete;

    SlabLedger& ledger;
    BrokerPort& port;
    SlabExchange& exchange;
    PeerWatch& watch;
    const Clock& clock;
    const SlabMemory memory;
    const BrokerOptions options;

    PeerTable peers;
    SlabRecords slab_records;
    ReadyQueue ready;
    BrokerReport totals;  // running counters; Broker::report() adds values that are computed on request

    Bytes message(const auto& body) const { return encode(options.run_nonce, body); }
    // Counts a refusal; returns how often this reason has occurred.
    std::uint64_t count(Refusal refusal) { return ++totals.refused[words(refusal)]; }
    std::uint64_t count(RefusalReason reason) { return ++totals.refused[words(reason)]; }
    std::uint64_t count(MessageChannel channel, ParseProblem problem) {
        return ++totals.refused[words(channel, problem)];
    }
    // Call it immediately before the ledger takes the step.
    void count_step(CountedStep step, const PublishedSlab& slab);
    // Takes back the slabs of a consumer that has left or will not process them. `work`: a dead consumer's work word.
    void take_slabs_back(Peer& peer, std::uint64_t work, const char* how);
    // The egress waits, and no slab is free.
    bool egress_is_short() const;
};

}  // namespace offramp
