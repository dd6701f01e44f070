#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/wire/slab_layout.hpp"
#include "common/wire/slab_view.hpp"
#include "producer/device/device.hpp"
#include "producer/device/device_timeline.hpp"
#include "producer/egress/output_batch.hpp"
#include "producer/egress/output_counters.hpp"
#include "producer/pool/published_slab.hpp"
#include "producer/pool/write_loan.hpp"

namespace offramp {

// A pair of events with timing, around the copies into one slab.
struct CopyEvents {
    std::unique_ptr<Event> began, copied;
    static CopyEvents make(Device& device) {
        return {device.make_event(Device::Timing::On), device.make_event(Device::Timing::On)};
    }
};

// One slab while it is filled. Rows of one batch, or whole small batches, are put on a stream as copies, with their
// header. Order: add() as long as it takes rows, close(), wait_copied().
//
// Owns: the loan; the batches' tensors until the copies are done. Borrows: layout, stream, events. Thread: one at a
// time. Blocks: wait_copied(); the destructor, when copies were submitted and not waited for: slab and tensors must
// outlive a running copy. Errors: the device's.
class SlabFilling {
  public:
    // `header_fields`: this class fills in slab and generation.
    SlabFilling(WriteLoan loan, const SlabLayout& layout, SlabWriter::HeaderFields header_fields, Stream& stream,
                CopyEvents& events);
    ~SlabFilling();
    SlabFilling(const SlabFilling&) = delete;
    SlabFilling& operator=(const SlabFilling&) = delete;

    // Copies rows [first_row, first_row + rows) of the batch once `computed` is done. False, and nothing changed: no
    // room.
    bool add(const std::shared_ptr<OutputBatch>& batch, std::uint32_t first_row, std::uint32_t rows);
    // Adds what was dropped just before this slab: samples, and skipped items of those batches.
    void note_dropped(const OutputBatch::Counts& counts) {
        published_.dropped += counts.samples;
        published_.skipped += counts.skipped;
    }
    void close();
    // Sleeps until the copies are done, reviews the rows and completes the header. The slab may be published from now
    // on. Errors: also those of RowReview: such a slab is not published.
    const PublishedSlab& wait_copied(OutputCounters& counters, DeviceTimeline& timeline);

    // For the publisher. Call it once.
    WriteLoan take_loan() { return std::move(loan_); }
    const PublishedSlab& published() const { return published_; }

  private:
    void review_rows(OutputCounters& counters);

    WriteLoan loan_;
    const SlabLayout& layout_;
    Stream& stream_;
    CopyEvents& events_;
    SlabWriter writer_;
    PublishedSlab published_;
    std::uint64_t copied_bytes_ = 0;  // of published_.bytes; the rest are zeros of batches without outputs
    struct Part {
        std::shared_ptr<OutputBatch> batch;
        std::uint32_t first_row = 0;
        std::uint32_t rows = 0;
    };
    std::vector<Part> parts_;
    std::vector<SampleEntry> entries_;
    bool copying_ = false;  // submitted, and not yet seen done
};

}  // namespace offramp
