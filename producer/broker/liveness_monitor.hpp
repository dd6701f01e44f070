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

// Finds dead and stalled consumers and takes back their slabs. A pidfd reports a death. A consumer without progress for
// a visibility timeout is stalled: others also get its slabs, and it holds them until it is dead or done.
//
// Owns: the time of the last check, and the consumers seen dead. Borrows: the state, the run's end; of the state: peers
// with their heartbeat records and pidfds, watch, ledger, clock, slab_records, queue. Thread: the broker's. Blocks:
// never. Errors: none.
class LivenessMonitor {
  public:
    // The interval between checks of the consumers' heartbeat records.
    static constexpr std::chrono::nanoseconds kLookInterval = std::chrono::milliseconds(100);

    LivenessMonitor(BrokerState& state, RunEnd& run_end) : state_(state), run_end_(run_end) {}

    // True if a consumer is dead. Its last messages may have come in since: take them before reap_dead_peers().
    bool poll_deaths();
    void reap_dead_peers();
    // Nothing until the next check is due; then its time, with the heartbeat records up to date.
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
