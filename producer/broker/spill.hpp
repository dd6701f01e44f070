#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "common/base/clock.hpp"
#include "producer/broker/broker_state.hpp"
#include "producer/broker/run_end.hpp"
#include "producer/broker/spill_store.hpp"

namespace offramp {

// The way to the disk and back: while the egress needs a slab and none is free, the oldest that waits for a consumer
// goes there; when nothing else waits, it comes back. Without a store in the options it does nothing.
//
// Owns: what is on the disk, and what is on its way. Borrows: the state, the run's end; of the state: store, ledger,
// exchange, the slabs' memory, clock, slab_records, queue. Thread: the broker's. Blocks: never, the store's thread
// writes and reads. Errors: what cannot be written stays in memory, with the reason in the totals; what cannot be read
// back is lost, and ends the run.
class Spill {
  public:
    // The egress waits so long for a consumer before a slab goes to the disk for it.
    static constexpr std::chrono::nanoseconds kPatience = std::chrono::milliseconds(50);

    Spill(BrokerState& state, const RunEnd& run_end) : state_(state), run_end_(run_end) {}

    // Goes on with what a previous producer left there, oldest first.
    void adopt(std::span<const SpilledSlab> spilled);
    // What the store has done since.
    void take_outcome();
    // Gives the store its next slab, if there is one.
    void set_to_work();
    // The egress was granted a slab; its thread may not know yet.
    void note_egress_served() { egress_waits_since_.reset(); }

    bool empty() const { return spilled_.empty(); }
    // A Ready slab that is on its way to the disk: nobody gets it meanwhile.
    bool is_being_written(std::uint32_t slab) const { return slab == writing_; }
    // The egress waits, and may soon need set_to_work().
    bool is_wanted() const { return state_.options.spill && state_.exchange.waiting(); }

  private:
    void on_written(const SpillStore::Outcome& outcome);
    void on_read_back(const SpillStore::Outcome& outcome);
    bool wants_to_write();
    std::optional<std::uint32_t> oldest_waiting() const;
    void read_next_back();

    BrokerState& state_;
    const RunEnd& run_end_;
    std::deque<SpilledSlab> spilled_;  // on the disk, oldest first
    std::optional<std::uint32_t> writing_;
    std::optional<TimePoint> egress_waits_since_;
    TimePoint next_write_{};  // not before, after one that failed
};

}  // namespace offramp
