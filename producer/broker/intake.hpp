#pragma once

#include <vector>

#include "producer/broker/broker_state.hpp"
#include "producer/broker/run_end.hpp"
#include "producer/pool/slab_exchange.hpp"

namespace offramp {

// The egress's side: filled slabs in, free ones out.
//
// Owns: nothing that outlives a call. Borrows: the state, the run's end (which wants to know when nothing more will
// come); of the state: exchange, ledger, the slabs' memory, fillings, queue, totals, and the progress record. Thread:
// the broker's. Blocks: never. Errors: none.
class Intake {
  public:
    Intake(BrokerState& state, RunEnd& run_end) : state_(state), run_end_(run_end) {}

    void take_published();
    // Whether the egress got one.
    bool grant_slabs();

  private:
    BrokerState& state_;
    RunEnd& run_end_;
    std::vector<SlabExchange::Grant> grants_;  // kept for its memory
};

}  // namespace offramp
