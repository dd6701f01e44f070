#pragma once

#include <cstdint>

#include "common/wire/run_progress.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/ledger/slab_ledger.hpp"
#include "producer/pool/published_slab.hpp"

namespace offramp {

// Keeps a run's progress record in shared memory, where it outlives the producer (common/wire/run_progress.hpp says
// how). Each call counts one step and comes immediately before it is taken.
//
// Borrows: the record's memory, which it alone writes while it lives. Thread: the broker's. Blocks: never.
class ProgressLog {
  public:
    struct Totals {
        SlabTotals published, completed, dead_letters;
        std::uint64_t items_through = 0;  // the high-water mark: where the next producer goes on
        std::uint64_t skipped = 0;        // before it: items that could not be read, or whose outputs mean nothing
        std::uint64_t dropped = 0;        // before it: samples that were dropped
    };

    // Goes on from what is there: in fresh memory, from nothing.
    explicit ProgressLog(RunProgress& memory);

    void count(CountedStep step, const PublishedSlab& slab, std::uint64_t generation);

    Totals totals() const;
    // The step that was counted last: whoever died of it may not have taken it.
    SlabLedger::LastStep last_step() const;

  private:
    const ProgressRecord& current() const;

    RunProgress& memory_;
};

}  // namespace offramp
