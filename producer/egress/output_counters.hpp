#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "common/base/duration_histogram.hpp"
#include "producer/egress/output_batch.hpp"
#include "producer/pool/slab_exchange.hpp"

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

    SlabTotals dropped() const {
        return {.batches = batches_dropped, .samples = samples_dropped, .bytes = bytes_dropped};
    }
    // At the end: batches that were dropped or abandoned instead of published.
    std::uint64_t batches_unpublished() const { return batches_submitted - batches_published; }
    std::uint64_t samples_unpublished() const { return samples_submitted - samples_published - samples_rejected; }
};

// The counters of an egress path. Thread: any.
class OutputCounters {
  public:
    void submitted(const OutputBatch& batch) {
        ++batches_submitted_;
        for (const RowInfo& row : batch.rows) samples_submitted_ += row.empty ? 0 : 1;
    }
    void published(const PublishedSlab& slab) {
        batches_published_ += slab.batches_ended;
        samples_published_ += slab.samples;
    }
    // `to_the_end`: the batch's last rows are among them.
    void dropped(std::uint32_t samples, std::uint64_t bytes, bool to_the_end) {
        samples_dropped_ += samples;
        bytes_dropped_ += bytes;
        batches_dropped_ += to_the_end ? 1 : 0;
    }
    // Samples with invalid outputs (RowReview).
    void rejected(std::uint32_t samples) { samples_rejected_ += samples; }
    void copied(std::uint64_t bytes) { bytes_copied_ += bytes; }
    // The device's time of one slab's copies.
    void timed(double seconds) {
        const std::lock_guard lock(times_mutex_);
        copy_times_.add(static_cast<std::uint64_t>(seconds * 1e9));
    }
    OutputStats stats() const {
        const std::lock_guard lock(times_mutex_);
        return {.batches_submitted = batches_submitted_,
                .samples_submitted = samples_submitted_,
                .batches_published = batches_published_,
                .samples_published = samples_published_,
                .batches_dropped = batches_dropped_,
                .samples_dropped = samples_dropped_,
                .bytes_dropped = bytes_dropped_,
                .samples_rejected = samples_rejected_,
                .bytes_copied = bytes_copied_,
                .copy_seconds = copy_times_.seconds(),
                .copy_times = copy_times_};
    }

  private:
    std::atomic<std::uint64_t> batches_submitted_{0}, samples_submitted_{0};
    std::atomic<std::uint64_t> batches_published_{0}, samples_published_{0};
    std::atomic<std::uint64_t> batches_dropped_{0}, samples_dropped_{0}, bytes_dropped_{0};
    std::atomic<std::uint64_t> samples_rejected_{0};
    std::atomic<std::uint64_t> bytes_copied_{0};
    mutable std::mutex times_mutex_;
    DurationHistogram copy_times_;
};

}  // namespace offramp
