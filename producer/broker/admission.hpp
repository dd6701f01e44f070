#pragma once

#include <random>
#include <string>
#include <vector>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/transport/ports.hpp"
#include "common/wire/messages.hpp"
#include "producer/broker/broker_state.hpp"
#include "producer/broker/continued_run.hpp"
#include "producer/broker/run_end.hpp"

namespace offramp {

// Lets consumers in, hears what they say on the work channel, and lets them go. Nobody is let in who is not of this
// run, of an allowed user, watched by a pidfd, and the very process that answered the challenge. Who cannot be watched
// for want of a descriptor waits for one.
//
// Owns: the source of secrets. Borrows: the state, the continued run (for those who come back), the run's end; of the
// state: port, watch, ledger, clock, peers, totals. Thread: the broker's. Blocks: never. Errors: none; who is refused
// is told why, and counted.
class Admission {
  public:
    Admission(BrokerState& state, ContinuedRun& continued, const RunEnd& run_end)
        : state_(state), continued_(continued), run_end_(run_end) {}

    // So many at once that a flood from one consumer does not starve the rest of the step.
    void take_messages();

  private:
    void on_hello(const Inbound& inbound, const ParsedMessage& message);
    void keep_unwatched(const Inbound& inbound, const SystemError& problem);
    void look_at_unwatched();
    void on_answer(Peer& peer, const Answer& answer);
    void on_disconnect(Peer& peer);
    void refuse(const std::string& peer, RefusalReason reason, const std::string& text);

    BrokerState& state_;
    ContinuedRun& continued_;
    const RunEnd& run_end_;
    std::random_device entropy_;
    std::vector<Inbound> unwatched_;  // Hellos of processes that no descriptor was left for
    TimePoint look_at_unwatched_{};
    bool reported_unwatched_ = false;
};

}  // namespace offramp
