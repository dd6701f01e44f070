#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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

// What a previous producer left: the slabs in flight, Ready ones in this order, dead letters that are not on the disk
// yet, and spilled slabs.
struct AdoptedSlabs {
    std::span<const PublishedSlab> in_flight;
    std::span<const PublishedSlab> dead_letters;
    std::span<const SpilledSlab> spilled;
};

// One group of consumers: its own ledger, port and records over slabs that it shares with the other groups. A run
// without groups has one.
struct BrokerGroup {
    SlabLedger& ledger;
    BrokerPort& port;
    std::span<const HeartbeatRecord> heartbeats;
    SlabMemory memory;
    BrokerOptions options;
};

// Hands slabs to the consumers of one group and records what became of them: messages, liveness, and the one ledger.
// common/design/wire-protocol.md describes the protocol; this is the producer's side. Broker fills the ledger and
// calls the steps, in the order in which they are declared here.
//
// Its parts do the work. Each part's constructor names what it touches.
//
// Owns: the parts, and the records of consumers and slabs. Borrows: ledger, port, exchange, watch, clock, heartbeat
// records. Thread: the broker's. Blocks: never. Errors: consumers' errors are counted and answered; only a broken
// system throws.
class GroupBroker {
  public:
    GroupBroker(BrokerGroup group, SlabExchange& exchange, PeerWatch& watch, const Clock& clock,
                std::shared_ptr<DeadLetterList> dead_letters);
    GroupBroker(const GroupBroker&) = delete;
    GroupBroker& operator=(const GroupBroker&) = delete;

    // Before the first step, over an adopted ledger: continues the record in `progress`, and waits for the previous
    // producer's consumers to come back. Takes back the slabs of dead ones, which does not count as a failure.
    void adopt(const AdoptedSlabs& adopted);

    // --- a step ---
    void take(PublishedSlab published);
    void take_messages();
    void note_egress_served() { spill_.note_egress_served(); }
    void hand_out();
    void finish();

    // The part of a step for new slabs alone.
    void hand_out_new();
    // A whole step is due, before that part and after it.
    bool is_busy_otherwise() const { return run_end_.closing() || !spill_.empty() || spill_.is_wanted(); }
    bool has_more_to_do() { return dead_letters_.has_next() || port_.may_have_messages(); }

    void egress_finished() { run_end_.egress_finished(); }
    // --- a group whose waiting slabs are dropped when no slab is free ---
    bool drops_oldest() const { return options_.policy.drops_oldest() && !run_end_.closing(); }
    std::optional<std::uint32_t> oldest_waiting(const std::function<bool(std::uint32_t)>& wanted) const {
        return spill_.oldest_waiting(wanted);
    }
    bool may_drop(std::uint32_t slab) const;
    bool may_spill(std::uint32_t slab) const;
    bool spills() const { return options_.spill != nullptr; }
    void drop(std::uint32_t slab) { spill_.drop(slab); }
    void abort() { run_end_.abort(); }
    // The required groups are done: drops what waits, and ends soon.
    void hurry();
    bool has_begun_to_end() const { return run_end_.begun(); }
    bool approaching_end() const { return run_end_.approaching(); }
    bool ended() const { return run_end_.ended(); }

    SlabLedger& ledger() { return ledger_; }
    const SlabLedger& ledger() const { return ledger_; }
    bool is_optional() const { return options_.policy.optional; }
    const SlabMemory& memory() const { return memory_; }
    // What its progress record counts.
    ProgressRecord counted() const { return options_.progress->totals(); }
    const PublishedSlab& published(std::uint32_t slab) const { return slab_records_[slab].published; }
    // Calls visit(published, lost) for each slab that this group has not processed, in memory and on the disk.
    void visit_open(const std::function<void(const PublishedSlab&, bool)>& visit) const;
    // Another group could not process this filling, or dropped it. `moved`: this group may have it in another slab.
    // Errors: SystemError, if it is on the disk.
    void mark_lost(const PublishedSlab& lost, bool moved);
    const std::vector<int>& wait_fds() { return peers_.wait_fds(exchange_.wake_fd()); }
    std::chrono::nanoseconds patience(TimePoint now) const;
    // `short_together`: with the other groups, it keeps the run from a free slab.
    BrokerReport report(bool short_together = false) const;
    GroupReport group_report(const BrokerReport& of_it) const;

  private:
    SlabLedger& ledger_;
    BrokerPort& port_;
    SlabExchange& exchange_;
    const SlabMemory memory_;
    const BrokerOptions options_;

    PeerTable peers_;
    SlabRecords slab_records_;
    ReadyQueue ready_;
    BrokerReport totals_;  // running counters; report() adds values that are computed on request
    SlabReturns returns_;
    RunEnd run_end_;
    ShortageReport shortage_;
    Spill spill_;
    DeadLetters dead_letters_;
    LivenessMonitor liveness_;
    ContinuedRun continued_;
    Admission admission_;
    Dispatcher dispatcher_;
};

}  // namespace offramp
