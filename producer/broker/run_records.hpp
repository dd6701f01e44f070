#pragma once

#include <cstdint>

#include "producer/broker/progress_log.hpp"
#include "producer/ledger/slab_ledger.hpp"
#include "producer/pool/run_memory.hpp"

namespace offramp {

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
