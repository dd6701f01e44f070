#pragma once

#include <random>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/transport/ports.hpp"
#include "common/wire/ledger_layout.hpp"
#include "common/wire/messages.hpp"
#include "producer/broker/broker_options.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/broker/peers.hpp"
#include "producer/broker/run_end.hpp"
#include "producer/broker/slab_records.hpp"
#include "producer/ledger/slab_ledger.hpp"
#include "producer/pool/slab_exchange.hpp"

namespace offramp {

// The broker's part in a recovery (producer/recovery/): it continues the dead producer's totals and slabs, and takes
// back that producer's consumers. Until they return, they are peers that are away: no connection, but a pidfd.
//
// Owns: nothing. Borrows: what its constructor names. Thread: the broker's. Blocks: never.
// Errors: a missing progress record (expect); SystemError when the system will not watch a process.
class ContinuedRun {
  public:
    ContinuedRun(SlabLedger& ledger, BrokerPort& port, PeerWatch& watch, const Clock& clock,
                 const BrokerOptions& options, PeerTable& peers, SlabRecords& slab_records, ReadyQueue& ready,
                 BrokerReport& totals, SlabReturns& returns, const RunEnd& run_end)
        : ledger_(ledger),
          port_(port),
          watch_(watch),
          clock_(clock),
          options_(options),
          peers_(peers),
          slab_records_(slab_records),
          ready_(ready),
          totals_(totals),
          returns_(returns),
          run_end_(run_end) {}

    // --- before the first step ---
    // Continues the progress record, the slabs in flight, Ready ones in this order, and the incident reports of dead
    // letters.
    void adopt(std::span<const PublishedSlab> in_flight, std::span<const PublishedSlab> dead_letters);
    // Each consumer keeps its index and its slabs until it returns or is proven dead; its visibility timeouts run
    // meanwhile. Dead ones are removed.
    void expect_consumers_back();

    // --- when they return ---
    // Continues a session of the previous producer for a peer that has answered with its token: same number and
    // consumer index, even if the peer never learned of it. Deliveries and releases are numbered from 1 again. False,
    // and nothing changed: no such session, or another process's.
    bool rejoin(Peer& peer);

  private:
    void restore_slab_record(const PublishedSlab& slab);
    void expect_back(const SlabLedger::Admitted& previous);
    void keep_only(Peer& peer, std::span<const SlabTicket> kept);

    SlabLedger& ledger_;
    BrokerPort& port_;
    PeerWatch& watch_;
    const Clock& clock_;
    const BrokerOptions& options_;
    PeerTable& peers_;
    SlabRecords& slab_records_;
    ReadyQueue& ready_;
    BrokerReport& totals_;
    SlabReturns& returns_;
    const RunEnd& run_end_;
};

// Admits consumers, reads their messages on the work channel, and removes them when they leave. An admitted consumer
// belongs to this run and to an allowed user, is watched by a pidfd, and is the process that answered the challenge. If
// no file descriptor is left for the pidfd, the consumer waits for one.
//
// Owns: the source of secrets. Borrows: what its constructor names. Thread: the broker's. Blocks: never. Errors: none;
// a refused consumer gets the reason, and is counted.
class Admission {
  public:
    Admission(SlabLedger& ledger, BrokerPort& port, PeerWatch& watch, const Clock& clock, const SlabMemory& memory,
              const BrokerOptions& options, PeerTable& peers, RefusalCounts& refused, SlabReturns& returns,
              ContinuedRun& continued, const RunEnd& run_end)
        : ledger_(ledger),
          port_(port),
          watch_(watch),
          clock_(clock),
          memory_(memory),
          options_(options),
          peers_(peers),
          refused_(refused),
          returns_(returns),
          continued_(continued),
          run_end_(run_end) {}

    // Takes a limited number at a time: a flood from one consumer must not starve the rest of the step.
    void take_messages();

  private:
    void on_hello(const Inbound& inbound, const ParsedMessage& message);
    void keep_unwatched(const Inbound& inbound, const SystemError& problem);
    void look_at_unwatched();
    void on_answer(Peer& peer, const Answer& answer);
    void on_disconnect(Peer& peer);
    void refuse(const std::string& peer, RefusalReason reason, const std::string& text);

    SlabLedger& ledger_;
    BrokerPort& port_;
    PeerWatch& watch_;
    const Clock& clock_;
    const SlabMemory& memory_;
    const BrokerOptions& options_;
    PeerTable& peers_;
    RefusalCounts& refused_;
    SlabReturns& returns_;
    ContinuedRun& continued_;
    const RunEnd& run_end_;
    std::random_device entropy_;
    std::vector<Inbound> unwatched_;  // Hellos of processes that wait for a file descriptor
    TimePoint look_at_unwatched_{};
    bool reported_unwatched_ = false;
};

}  // namespace offramp
