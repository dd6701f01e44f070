#pragma once

#include <span>
#include <vector>

#include "producer/broker/broker_state.hpp"
#include "producer/broker/run_end.hpp"
#include "producer/pool/slab_exchange.hpp"

namespace offramp {

// The egress's side: filled slabs in, free ones out.
//
// Owns: whether the last grant was short. Borrows: the state, the run's end (to note that nothing more will come); of
// the state: exchange, ledger, the slabs' memory, slab_records, queue, totals, and the progress record. Thread: the
// broker's. Blocks: never. Errors: none.
class Intake {
  public:
    Intake(BrokerState& state, RunEnd& run_end) : state_(state), run_end_(run_end) {}

    // Takes everything from the egress.
    void take_published();
    // Takes filled slabs only: the rest waits for the broker's own step.
    void take_slabs() { publish(state_.exchange.take_published()); }
    // True if the egress got one.
    bool grant_slabs();
    // Reports to the egress that no slab is free, if the last grant was short. Not while a release waits: it frees one.
    void report_shortage();

  private:
    void publish(std::span<const PublishedSlab> slabs);

    BrokerState& state_;
    RunEnd& run_end_;
    std::vector<SlabExchange::Grant> grants_;  // kept for its memory
    bool is_short_ = false;
};

}  // namespace offramp
