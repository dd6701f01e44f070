#pragma once

#include <cstdint>

#include "common/wire/run_progress.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/ledger/slab_ledger.hpp"
#include "producer/pool/run_memory.hpp"
#include "producer/pool/slab_exchange.hpp"

namespace offramp {

// Keeps a run's progress record in shared memory, where it outlives the producer (see common/wire/run_progress.hpp).
// Each call counts one step, immediately before the step.
//
// Borrows: the record's memory, which only this object writes while it lives. Thread: the broker's. Blocks: never.
class ProgressLog {
  public:
    // Continues from the record; fresh memory starts at zero.
    explicit ProgressLog(RunProgress& memory);

    // `was_lost`: another group has lost the slab for the whole run.
    void count(CountedStep step, const PublishedSlab& slab, std::uint64_t generation, bool was_lost = false);

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
    if (log != nullptr) log->count(step, slab, ledger.word(slab.slab).generation, ledger.is_lost(slab.slab));
}

// The part of a run that outlives its producer: the memory, with the ledger and the progress record. A new run creates
// it; a recovery (producer/recovery/) takes it over from a dead producer.
//
// Owns: the memory. Thread: the maker's; once there is a broker, ledger and log are the broker's. Blocks: never.
// Errors: as RunMemory's.
struct RunRecords {
    explicit RunRecords(RunMemory made)
        : memory(std::move(made)),
          ledger(SlabLedger::format(memory.ledger(), memory.epoch())),
          progress(memory.progress()) {}
    // `recovered`: over `taken`.
    RunRecords(RunMemory taken, const SlabLedger& recovered)
        : memory(std::move(taken)), ledger(recovered), progress(memory.progress()) {}
    RunRecords(const RunRecords&) = delete;
    RunRecords& operator=(const RunRecords&) = delete;

    RunMemory memory;
    SlabLedger ledger;
    ProgressLog progress;
};

}  // namespace offramp
