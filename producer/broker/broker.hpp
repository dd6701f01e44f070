#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "common/base/clock.hpp"
#include "common/transport/ports.hpp"
#include "common/wire/ledger_layout.hpp"
#include "producer/broker/admission.hpp"
#include "producer/broker/broker_options.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/broker/broker_state.hpp"
#include "producer/broker/continued_run.hpp"
#include "producer/broker/dead_letters.hpp"
#include "producer/broker/dispatcher.hpp"
#include "producer/broker/intake.hpp"
#include "producer/broker/liveness_monitor.hpp"
#include "producer/broker/peer_watch.hpp"
#include "producer/broker/run_end.hpp"
#include "producer/broker/shortage_report.hpp"
#include "producer/broker/spill.hpp"
#include "producer/broker/spill_store.hpp"
#include "producer/ledger/slab_ledger.hpp"
#include "producer/pool/slab_exchange.hpp"

namespace offramp {

// Tells consumers which slabs they may read, and learns what became of them: messages, liveness, and the one ledger.
// common/design/wire-protocol.md is the protocol; this is its producer's side.
//
// What it does is done by its parts, in the order that step() shows. Each has its own state, and is lent what they have
// in common.
//
// Owns: the parts, and what is known of consumers and slabs. Borrows: ledger, port, exchange, watch, clock, heartbeat
// records. Thread: one at a time, the owner of ledger and port. Blocks: never (the thread that steps it waits on the
// port and wait_fds()). Errors: whatever a consumer sends is counted and answered; only a broken system throws.
class Broker {
  public:
    using SlabMemory = offramp::SlabMemory;

    Broker(SlabLedger& ledger, BrokerPort& port, SlabExchange& exchange, PeerWatch& watch, const Clock& clock,
           std::span<const HeartbeatRecord> heartbeats, SlabMemory memory, BrokerOptions options);

    // Before the first step, over an adopted ledger: goes on with the record in `progress` and with what is in flight,
    // Ready slabs in this order; sees to dead letters that are still there; goes on with what was spilled; waits for
    // the previous producer's consumers to come back, and takes back what the dead of them held, which does not
    // count as a failure.
    void adopt(std::span<const PublishedSlab> in_flight, std::span<const PublishedSlab> dead_letters,
               std::span<const SpilledSlab> spilled = {});

    // Takes everything that is waiting, hands out what can be handed out.
    void step();
    // Of a step, what slabs need that were just published, while the thread that steps it sleeps in the port's wait():
    // by whoever has its turn. False: a step is due.
    bool dispatch_inline();
    // Descriptors that make another step worth while, besides the port's own. Valid until the next step.
    const std::vector<int>& wait_fds();
    // The longest that the next step can wait. From here to that step, the exchange notifies of what comes in; 0 when
    // something has.
    std::chrono::nanoseconds patience();
    // Tells every consumer to give back what it has not begun and to leave; no slab is handed out any more.
    void abort() { run_end_.abort(); }
    bool ended() const { return run_end_.ended(); }
    BrokerReport report() const;

  private:
    BrokerState state_;
    RunEnd run_end_;
    Intake intake_;
    ShortageReport shortage_;
    Spill spill_;
    DeadLetters dead_letters_;
    LivenessMonitor liveness_;
    ContinuedRun continued_;
    Admission admission_;
    Dispatcher dispatcher_;
};

}  // namespace offramp
