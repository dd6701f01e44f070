#pragma once

#include <cstdint>

#include "common/wire/run_progress.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/ledger/slab_ledger.hpp"
#include "producer/pool/published_slab.hpp"

namespace offramp {

// Keeps a run's progress record in shared memory, where it outlives the producer (see common/wire/run_progress.hpp).
// Each call counts one step, immediately before the step.
//
// Borrows: the record's memory, which only this object writes while it lives. Thread: the broker's. Blocks: never.
class ProgressLog {
  public:
    // Continues from the record; fresh memory starts at zero.
    explicit ProgressLog(RunProgress& memory);

    void count(CountedStep step, const PublishedSlab& slab, std::uint64_t generation);

    // A copy of the record that counts.
    ProgressRecord totals() const { return current(); }
    // The step counted last. A producer that died may not have taken it.
    SlabLedger::LastStep last_step() const;

  private:
    const ProgressRecord& current() const;

    RunProgress& memory_;
};

// Counts a step of a run that has a log, immediately before the ledger takes it. `log`: null for none.
inline void count_step(ProgressLog* log, CountedStep step, const PublishedSlab& slab, const SlabLedger& ledger) {
    if (log != nullptr) log->count(step, slab, ledger.word(slab.slab).generation);
}

}  // namespace offramp
