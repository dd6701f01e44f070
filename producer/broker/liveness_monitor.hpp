#pragma once

#include <poll.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.hpp"
#include "producer/broker/broker_state.hpp"
#include "producer/broker/run_end.hpp"

namespace offramp {

// The dead and those who hang: what becomes of what they hold. Death is what a pidfd says; who makes no progress for a
// visibility timeout is stalled: its slabs go to others as well, and stay held until it is dead or done.
//
// Owns: when it looked last, and whom it saw dead. Borrows: the state, the run's end; of the state: peers with their
// heartbeat records and pidfds, watch, ledger, clock, slab_records, queue. Thread: the broker's. Blocks: never. Errors:
// none.
class LivenessMonitor {
  public:
    // So often consumers' heartbeat records are looked at for signs of life.
    static constexpr std::chrono::nanoseconds kLookInterval = std::chrono::milliseconds(100);

    LivenessMonitor(BrokerState& state, RunEnd& run_end) : state_(state), run_end_(run_end) {}

    // Whether somebody is dead. What the dead said last may have come in since: it is to be heard before
    // reap_dead_peers().
    bool poll_deaths();
    void reap_dead_peers();
    // Nothing until the next look is due; then its time, with the heartbeat records up to date.
    std::optional<TimePoint> begin_look();
    void check_visibility_timeouts(TimePoint now);

  private:
    void reap(Peer& peer);
    void leave_out_pause(TimePoint now);
    void on_stalled(Peer& peer);
    void report_stalled(Peer& peer, std::chrono::nanoseconds silent_for) const;

    BrokerState& state_;
    RunEnd& run_end_;
    std::vector<pollfd> pidfds_;
    std::vector<std::string> dead_;  // by routing id, until they are reaped
    TimePoint next_look_{};
    TimePoint last_look_{};
};

}  // namespace offramp
