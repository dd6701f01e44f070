#pragma once

#include <atomic>
#include <cstdint>

#include "producer/egress/egress_path.hpp"
#include "producer/pool/published_slab.hpp"

namespace offramp {

// Counts what goes through an egress path. Thread: any.
class OutputCounters {
  public:
    void submitted(const OutputBatch& batch) {
        ++batches_submitted_;
        for (const RowInfo& row : batch.rows) samples_submitted_ += row.hole ? 0 : 1;
    }
    void published(const PublishedSlab& slab) {
        batches_published_ += slab.batches_ended;
        samples_published_ += slab.samples;
    }
    // `to_the_end`: with the batch's last rows.
    void dropped(std::uint32_t samples, bool to_the_end) {
        samples_dropped_ += samples;
        batches_dropped_ += to_the_end ? 1 : 0;
    }
    // Samples that mean nothing (RowReview).
    void rejected(std::uint32_t samples) { samples_rejected_ += samples; }
    void copied(std::uint64_t bytes, double seconds) {
        bytes_copied_ += bytes;
        copy_ns_ += static_cast<std::uint64_t>(seconds * 1e9);
    }
    OutputFigures figures() const {
        return {.batches_submitted = batches_submitted_,
                .samples_submitted = samples_submitted_,
                .batches_published = batches_published_,
                .samples_published = samples_published_,
                .batches_dropped = batches_dropped_,
                .samples_dropped = samples_dropped_,
                .samples_rejected = samples_rejected_,
                .bytes_copied = bytes_copied_,
                .copy_seconds = static_cast<double>(copy_ns_) / 1e9};
    }

  private:
    std::atomic<std::uint64_t> batches_submitted_{0}, samples_submitted_{0};
    std::atomic<std::uint64_t> batches_published_{0}, samples_published_{0};
    std::atomic<std::uint64_t> batches_dropped_{0}, samples_dropped_{0};
    std::atomic<std::uint64_t> samples_rejected_{0};
    std::atomic<std::uint64_t> bytes_copied_{0}, copy_ns_{0};
};

}  // namespace offramp
