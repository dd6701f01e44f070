#pragma once

#include <cstdint>

#include "producer/broker/progress_log.hpp"
#include "producer/ledger/slab_ledger.hpp"
#include "producer/pool/run_memory.hpp"

namespace offramp {

// What of a run outlives its producer: the memory, the ledger and the progress record in it. A run that begins makes
// it; whoever goes on with a dead producer's run recovers it (producer/recovery/).
//
// Owns: the memory. Thread: the maker's; once there is a broker, ledger and log are its own. Blocks: never. Errors: as
// RunMemory's.
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
