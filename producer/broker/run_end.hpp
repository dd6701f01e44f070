#pragma once

#include <chrono>
#include <optional>

#include "common/base/clock.hpp"
#include "common/transport/ports.hpp"
#include "common/wire/messages.hpp"
#include "producer/broker/broker_options.hpp"
#include "producer/broker/peers.hpp"
#include "producer/ledger/slab_ledger.hpp"

namespace offramp {

// The end of a run: once nothing is in flight, or at an abort, each consumer is ordered to leave and has a limited time
// to disconnect.
//
// Owns: the state of the end. Borrows: what its constructor names. Thread: the broker's. Blocks: never. Errors: none;
// consumers that do not disconnect in time are counted in the log.
class RunEnd {
  public:
    RunEnd(const SlabLedger& ledger, BrokerPort& port, const Clock& clock, const BrokerOptions& options,
           PeerTable& peers)
        : ledger_(ledger), port_(port), clock_(clock), options_(options), peers_(peers) {}

    // The egress will publish nothing more.
    void egress_finished() { finished_ = true; }
    void abort();
    // The run does not wait for this group any longer: its consumers leave after the slabs that they have begun.
    void hurry() { hurried_ = true; }
    // `disk_is_empty`: no slab is left on the disk for consumers.
    void finish(bool disk_is_empty);
    // This process did not run for this long, and most likely nor did the consumers: extends their time.
    void leave_out(std::chrono::nanoseconds pause);
    void send_drain(Peer& peer, DrainReason reason) const;

    bool aborting() const { return aborting_; }
    bool approaching() const { return finished_ || aborting_; }  // the egress gets no more slabs
    bool begun() const { return until_.has_value(); }            // every consumer was ordered to leave
    bool closing() const { return aborting_ || begun(); }        // no slab is handed out any more
    bool ended() const { return ended_; }

  private:
    const SlabLedger& ledger_;
    BrokerPort& port_;
    const Clock& clock_;
    const BrokerOptions& options_;
    PeerTable& peers_;
    std::optional<TimePoint> until_;
    bool finished_ = false;
    bool aborting_ = false;
    bool hurried_ = false;
    bool ended_ = false;
};

}  // namespace offramp
