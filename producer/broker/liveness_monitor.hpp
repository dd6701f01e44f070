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
// lease's time is overdue: its slabs go to others as well, and stay held until it is dead or done.
//
// Owns: when it looked last, and whom it saw dead. Borrows: the state, the farewell; of the state: peers with their
// cells and pidfds, watch, ledger, clock, fillings, queue. Thread: the broker's. Blocks: never. Errors: none.
class LeaseMonitor {
  public:
    // So often consumers' cells are looked at for signs of life.
    static constexpr std::chrono::nanoseconds kLookInterval = std::chrono::milliseconds(100);

    LeaseMonitor(BrokerState& state, Farewell& farewell) : state_(state), farewell_(farewell) {}

    // Whether somebody is dead. What the dead said last may have come in since: it is to be heard before
    // bury_the_dead().
    bool sees_deaths();
    void bury_the_dead();
    // Nothing until the next look is due; then its time, with the cells up to date.
    std::optional<TimePoint> begin_look();
    void look_at_leases(TimePoint now);

  private:
    void bury(Peer& peer);
    void leave_out_pause(TimePoint now);
    void on_overdue(Peer& peer);

    BrokerState& state_;
    Farewell& farewell_;
    std::vector<pollfd> pidfds_;
    std::vector<std::string> dead_;  // by routing id, until they are buried
    TimePoint next_look_{};
    TimePoint last_look_{};
};

}  // namespace offramp
