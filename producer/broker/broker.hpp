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
#include "producer/broker/dead_letters.hpp"
#include "producer/broker/dispatcher.hpp"
#include "producer/broker/liveness_monitor.hpp"
#include "producer/broker/peers.hpp"
#include "producer/broker/run_end.hpp"
#include "producer/broker/run_records.hpp"
#include "producer/broker/shortage_report.hpp"
#include "producer/broker/slab_records.hpp"
#include "producer/broker/spill.hpp"
#include "producer/broker/spill_store.hpp"
#include "producer/ledger/slab_ledger.hpp"
#include "producer/pool/slab_exchange.hpp"

namespace offramp {

// The egress's side: filled slabs in, free ones out.
//
// Owns: whether the last grant was short. Borrows: what its constructor names. Thread: the broker's. Blocks: never.
// Errors: none.
class Intake {
  public:
    Intake(SlabLedger& ledger, SlabExchange& exchange, const SlabMemory& memory, ProgressLog* progress,
           SlabRecords& slab_records, ReadyQueue& ready, BrokerReport& totals, RunEnd& run_end)
        : ledger_(ledger),
          exchange_(exchange),
          memory_(memory),
          progress_(progress),
          slab_records_(slab_records),
          ready_(ready),
          totals_(totals),
          run_end_(run_end) {}

    // Takes everything from the egress.
    void take_published();
    // Takes filled slabs only: the rest waits for the broker's own step.
    void take_slabs() { publish(exchange_.take_published()); }
    // True if the egress got one.
    bool grant_slabs();
    // Reports to the egress that no slab is free, if the last grant was short. Not while a release waits: it frees one.
    void report_shortage();

  private:
    void publish(std::span<const PublishedSlab> slabs);

    SlabLedger& ledger_;
    SlabExchange& exchange_;
    const SlabMemory& memory_;
    ProgressLog* const progress_;
    SlabRecords& slab_records_;
    ReadyQueue& ready_;
    BrokerReport& totals_;
    RunEnd& run_end_;
    std::vector<SlabExchange::Grant> grants_;  // kept for its memory
    bool is_short_ = false;
};

// Hands slabs to consumers and records what became of them: messages, liveness, and the one ledger.
// common/design/wire-protocol.md describes the protocol; this is the producer's side.
//
// Its parts do the work, in the order shown in step(). Each part's constructor names what it touches.
//
// Owns: the parts, and the records of consumers and slabs. Borrows: ledger, port, exchange, watch, clock, heartbeat
// records. Thread: one at a time, the owner of ledger and port. Blocks: never (the thread that steps it waits on the
// port and wait_fds()). Errors: consumers' errors are counted and answered; only a broken system throws.
class Broker {
  public:
    using SlabMemory = offramp::SlabMemory;

    Broker(SlabLedger& ledger, BrokerPort& port, SlabExchange& exchange, PeerWatch& watch, const Clock& clock,
           std::span<const HeartbeatRecord> heartbeats, SlabMemory memory, BrokerOptions options);
    Broker(const Broker&) = delete;
    Broker& operator=(const Broker&) = delete;

    // Call before the first step, over an adopted ledger. Continues the record in `progress`, the Ready slabs in this
    // order, dead letters that are still there, and spilled slabs. Waits for the previous producer's consumers to come
    // back. Takes back the slabs of dead ones, which does not count as a failure.
    void adopt(std::span<const PublishedSlab> in_flight, std::span<const PublishedSlab> dead_letters,
               std::span<const SpilledSlab> spilled = {});

    // Takes all waiting messages and slabs, and hands out what it can.
    void step();
    // The part of a step that newly published slabs need, while the stepping thread sleeps in the port's wait(). Called
    // by the thread that has the turn. False: a step is due.
    bool dispatch_inline();
    // Descriptors that call for another step, besides the port's own. Valid until the next step.
    const std::vector<int>& wait_fds();
    // The longest time until the next step. From here to that step, the exchange notifies of new work; 0 if there is
    // some already.
    std::chrono::nanoseconds patience();
    // Orders every consumer to return what it has not begun and to leave. No slab is handed out after it.
    void abort() { run_end_.abort(); }
    bool ended() const { return run_end_.ended(); }
    BrokerReport report() const;

  private:
    const SlabLedger& ledger_;
    BrokerPort& port_;
    SlabExchange& exchange_;
    const Clock& clock_;
    const SlabMemory memory_;
    const BrokerOptions options_;

    PeerTable peers_;
    SlabRecords slab_records_;
    ReadyQueue ready_;
    BrokerReport totals_;  // running counters; report() adds values that are computed on request
    SlabReturns returns_;
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
