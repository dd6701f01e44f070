#pragma once

#include <chrono>
#include <optional>

#include "common/base/clock.hpp"
#include "common/wire/messages.hpp"
#include "producer/broker/broker_state.hpp"

namespace offramp {

// How a run ends: once nothing is in flight any more, or at an abort, each consumer is told to leave, and has a while
// to disconnect.
//
// Owns: how far that is. Borrows: the state; of it: ledger, exchange, port, clock, peers.
// Thread: the broker's. Blocks: never. Errors: none; consumers that do not disconnect in time are counted in the log.
class RunEnd {
  public:
    explicit RunEnd(BrokerState& state) : state_(state) {}

    // The egress will publish nothing more.
    void egress_finished() { finished_ = true; }
    void abort();
    // `disk_is_empty`: no slab is there that consumers have not seen.
    void finish(bool disk_is_empty);
    // This process did not run for so long, and most likely nor did the consumers: they have it in addition.
    void leave_out(std::chrono::nanoseconds pause);
    void send_drain(Peer& peer, DrainReason reason) const;

    bool aborting() const { return aborting_; }
    bool begun() const { return until_.has_value(); }      // everyone has been told to leave
    bool closing() const { return aborting_ || begun(); }  // no slab is handed out any more
    bool ended() const { return ended_; }

  private:
    BrokerState& state_;
    std::optional<TimePoint> until_;
    bool finished_ = false;
    bool aborting_ = false;
    bool ended_ = false;
};

}  // namespace offramp
