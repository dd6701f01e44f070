#pragma once

#include <cstdint>
#include <vector>

#include "common/base/item_ranges.hpp"
#include "common/shm/run_objects.hpp"
#include "common/wire/slab_layout.hpp"
#include "producer/broker/progress_log.hpp"
#include "producer/broker/spill_store.hpp"
#include "producer/ledger/slab_ledger.hpp"
#include "producer/pool/published_slab.hpp"

namespace offramp {

// What the producers before this one did for the run, and what the last of them left. Of a run that begins: nothing.
struct Predecessor {
    ProgressLog::Totals totals;
    std::vector<PublishedSlab> in_flight;     // slabs that consumers hold or wait for, in the order of publication
    std::vector<PublishedSlab> dead_letters;  // dead letters that are not on the disk yet
    std::vector<SpilledSlab> spilled;         // in the order of publication

    // Of what was published: the items that no consumer is done with, in memory and on the disk.
    ItemRanges waiting() const;
};

// How a run's batches are numbered: what the slabs' headers are compared with.
struct BatchNumbers {
    std::uint32_t batch = 1;  // most samples of a batch
    std::uint64_t items = 0;  // of the source
};

// By the slabs' own headers, over a ledger that was recovered. Maps each span for as long as it reads. `spill`: null
// where the run does not spill. A spilled file whose slab still waits in memory, or waits there again, is a copy that
// death left over: it is removed. Errors: ProtocolError for a header that contradicts the ledger, and for a file that
// is not a slab of this run; SystemError.
Predecessor read_predecessor(const SlabLedger& ledger, const ProgressLog::Totals& totals, const RunNames& names,
                             const SpanPlan& spans, const BatchNumbers& numbers, const SpillStore* spill);

// The progress record and the slabs are independent records: what was published and is neither completed nor a dead
// letter must be in flight or spilled, and nothing of that lies behind the high-water mark. Errors: CountMismatch, with
// the stats.
void require_conserved(const Predecessor& predecessor);

}  // namespace offramp
