#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/base/items.hpp"
#include "common/shm/run_objects.hpp"
#include "common/wire/run_progress.hpp"
#include "common/wire/slab_layout.hpp"
#include "producer/broker/spill_store.hpp"
#include "producer/ledger/slab_ledger.hpp"
#include "producer/pool/slab_exchange.hpp"

namespace offramp {

// The results of this run's earlier producers, and the slabs of the last one. Empty in a run that begins.
struct Predecessor {
    ProgressRecord totals{};
    std::vector<PublishedSlab> in_flight;     // slabs that consumers hold or wait for, in the order of publication
    std::vector<PublishedSlab> dead_letters;  // dead letters that are not on the disk yet
    std::vector<SpilledSlab> spilled;         // in the order of publication

    // Published items that no consumer has completed, in memory and on the disk.
    ItemRanges waiting() const;
};

// The numbering of a run's batches, for comparison with the slabs' headers.
struct BatchNumbers {
    std::uint32_t batch = 1;  // most samples of a batch
    std::uint64_t items = 0;  // of the source
    // The first item of each batch, if batches differ; empty: every `batch` items.
    std::vector<std::uint64_t> starts{};

    // `items` behind the last batch.
    std::uint64_t begin_of(std::uint64_t number) const {
        if (starts.empty()) return std::min(number * batch, items);
        return number < starts.size() ? starts[number] : items;
    }
};

// The contents of a slab that was filled, by its header. `word`: of its ledger. Errors: as read_predecessor().
PublishedSlab read_filled_slab(std::uint32_t slab, SlabWord word, std::uint32_t epoch, const RunNames& names,
                               const SpanPlan& spans, const BatchNumbers& numbers);

// Reads the slabs' headers, over a recovered ledger. Maps each span while it reads. `spill`: null if the run does not
// spill. A spilled file whose slab waits in memory is a copy left by the death: it is removed. Errors: ProtocolError
// for a header that contradicts the ledger, and for a file that is not a slab of this run; SystemError.
Predecessor read_predecessor(const SlabLedger& ledger, const ProgressRecord& totals, const RunNames& names,
                             const SpanPlan& spans, const BatchNumbers& numbers, const SpillStore* spill);

// The progress record and the slabs are independent records. Slabs published but neither completed nor dead-lettered
// must be in flight or spilled, below the high-water mark. Errors: CountMismatch, with the stats.
void require_conserved(const Predecessor& predecessor);

}  // namespace offramp
