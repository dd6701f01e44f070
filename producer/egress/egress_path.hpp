#pragma once

#include <cstdint>

#include "common/base/duration_histogram.hpp"
#include "producer/egress/output_batch.hpp"

namespace offramp {

// Totals of an egress path at one moment.
struct OutputStats {
    std::uint64_t batches_submitted = 0, samples_submitted = 0;  // samples without empty rows
    std::uint64_t batches_published = 0, samples_published = 0;
    std::uint64_t batches_dropped = 0, samples_dropped = 0,
                  bytes_dropped = 0;     // because no slab was free and the run does not wait
    std::uint64_t samples_rejected = 0;  // their outputs are invalid: empty rows of their slab
    std::uint64_t bytes_copied = 0;
    // device time of the copies, from event pairs; only of slabs with one batch or a part of one
    double copy_seconds = 0;
    DurationHistogram copy_times;  // one entry per such copy

    // At the end: batches that were dropped or abandoned instead of published.
    std::uint64_t batches_unpublished() const { return batches_submitted - batches_published; }
    std::uint64_t samples_unpublished() const { return samples_submitted - samples_published - samples_rejected; }
};

// Where a model's outputs go. A run uses EgressStream; the other paths exist for the ladder's comparisons.
// Thread: submit() and finish() from the model's; stop() and stats() from any. Blocks: submit() for back-pressure;
// finish() until everything is published. Errors: a failure is thrown by the next submit() or by finish().
class EgressPath {
  public:
    virtual ~EgressPath() = default;
    // False after stop(): the path did not take the batch.
    virtual bool submit(OutputBatch batch) = 0;
    virtual void finish() = 0;
    // Abandons batches whose copies have not begun. Waits for copies under way: their slabs cannot be freed earlier.
    virtual void stop() = 0;
    virtual OutputStats stats() const = 0;
};

}  // namespace offramp
