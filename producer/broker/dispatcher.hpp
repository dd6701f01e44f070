#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "common/base/clock.hpp"
#include "common/transport/ports.hpp"
#include "common/wire/messages.hpp"
#include "producer/broker/broker_options.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/broker/dead_letters.hpp"
#include "producer/broker/peers.hpp"
#include "producer/broker/run_end.hpp"
#include "producer/broker/slab_records.hpp"
#include "producer/broker/spill.hpp"
#include "producer/ledger/slab_ledger.hpp"

namespace offramp {

// The shortest interval between acknowledgements to a consumer while nothing is in doubt.
inline constexpr std::chrono::nanoseconds kAcknowledgeInterval = std::chrono::milliseconds(25);
// An acknowledgement waits this long to be sent along with tickets: two messages in one wake-up cost no more than one.
// A consumer repeats its release after twice this time.
inline constexpr std::chrono::nanoseconds kAcknowledgeAlone = std::chrono::milliseconds(50);

// Tickets out, releases in: assigns slabs within each consumer's window and the ledger's rules, and records the
// results.
//
// Owns: the order in which consumers get slabs. Borrows: what its constructor names. Thread: the broker's. Blocks:
// never. Errors: none; an unauthorized release is counted, and changes nothing.
class Dispatcher {
  public:
    Dispatcher(SlabLedger& ledger, BrokerPort& port, const Clock& clock, const BrokerOptions& options, PeerTable& peers,
               SlabRecords& slab_records, ReadyQueue& ready, BrokerReport& totals, DeadLetters& dead_letters,
               const Spill& spill, const RunEnd& run_end)
        : ledger_(ledger),
          port_(port),
          clock_(clock),
          options_(options),
          peers_(peers),
          slab_records_(slab_records),
          ready_(ready),
          totals_(totals),
          dead_letters_(dead_letters),
          spill_(spill),
          run_end_(run_end) {}

    void take_releases();
    void dispatch();
    void acknowledge_releases();
    // How long acknowledge_releases() may wait, at most `longest`.
    std::chrono::nanoseconds patience(TimePoint now, std::chrono::nanoseconds longest) const;

  private:
    Peer* sender(const Inbound& inbound, std::uint64_t session);
    void on_failure(const Inbound& inbound, const ParsedMessage& message);
    void on_releases(const Inbound& inbound, const ParsedMessage& message);
    void on_release(Peer& peer, const ReleaseRecord& record);
    void on_failed(Peer& peer, const ReleaseRecord& record, bool ready_again);
    ReadyQueue::Walk dispatch(const ReadySlab& entry, std::size_t left, TimePoint now);
    void list_serving();
    Peer* best_peer(std::uint32_t slab, bool idle_only);
    void send_tickets();

    SlabLedger& ledger_;
    BrokerPort& port_;
    const Clock& clock_;
    const BrokerOptions& options_;
    PeerTable& peers_;
    SlabRecords& slab_records_;
    ReadyQueue& ready_;
    BrokerReport& totals_;
    DeadLetters& dead_letters_;
    const Spill& spill_;
    const RunEnd& run_end_;
    std::vector<Peer*> serving_;  // consumers that may get a slab in this step
    std::uint32_t room_ = 0;      // deliveries that they will still take
    std::uint64_t serve_counter_ = 0;
};

}  // namespace offramp
