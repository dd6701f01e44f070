#pragma once

#include <cstdint>

#include "common/base/duration_histogram.hpp"
#include "producer/egress/output_batch.hpp"

namespace offramp {

// What went into an egress path and came out of it. A copy of one moment.
struct OutputStats {
    std::uint64_t batches_submitted = 0, samples_submitted = 0;  // samples without empty rows
    std::uint64_t batches_published = 0, samples_published = 0;
    std::uint64_t batches_dropped = 0, samples_dropped = 0,
                  bytes_dropped = 0;     // since no slab was free, and the run does not wait
    std::uint64_t samples_rejected = 0;  // whose outputs mean nothing: empty rows of their slab
    std::uint64_t bytes_copied = 0;
    // device time of the copies, from event pairs; of slabs that hold one batch, or a part of one
    double copy_seconds = 0;
    DurationHistogram copy_times;  // of each of them

    // At the end: what was never published, but dropped or abandoned.
    std::uint64_t batches_unpublished() const { return batches_submitted - batches_published; }
    std::uint64_t samples_unpublished() const { return samples_submitted - samples_published - samples_rejected; }
};

// Where a model's outputs go. EgressStream is the one of a run; the others are the ladder's, to be compared with it.
// Thread: submit() and finish() from the model's; stop() and stats() from any. Blocks: submit() for back-pressure;
// finish() until everything is published. Errors: what went wrong is thrown by the next submit() or by finish().
class EgressPath {
  public:
    virtual ~EgressPath() = default;
    // False after stop(): the batch was not taken.
    virtual bool submit(OutputBatch batch) = 0;
    virtual void finish() = 0;
    // Abandons what is not being copied yet; copies under way are waited for, since their slabs are not ours to give
    // back before.
    virtual void stop() = 0;
    virtual OutputStats stats() const = 0;
};

}  // namespace offramp
