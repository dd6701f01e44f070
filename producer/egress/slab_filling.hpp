#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/wire/slab_layout.hpp"
#include "common/wire/slab_view.hpp"
#include "producer/device/device.hpp"
#include "producer/device/device_timeline.hpp"
#include "producer/egress/output_batch.hpp"
#include "producer/egress/output_counters.hpp"
#include "producer/pool/slab_exchange.hpp"
#include "producer/pool/write_loan.hpp"

namespace offramp {

// A pair of events with timing, around the copies into one slab.
struct CopyEvents {
    std::unique_ptr<Event> began, copied;
    static CopyEvents make(Device& device) {
        return {device.make_event(Device::Timing::On), device.make_event(Device::Timing::On)};
    }
};

// One slab while it is filled: rows of one batch, or whole small batches, are put on a stream as copies, with the
// header that describes them. Order: add() as often as it takes rows, close(), wait_copied().
//
// Owns: the loan, if there is one; the batches' tensors until the copies are done. Borrows: bytes, layout, stream,
// events. Thread: one at a time. Blocks: wait_copied(); the destructor, when copies were submitted and not waited for:
// neither slab nor tensor may go while a copy still runs. Errors: the device's.
class SlabFilling {
  public:
    // Where the bytes go, and what they are called there.
    struct Target {
        std::uint32_t slab = 0;
        std::uint64_t generation = 0;
        std::span<std::byte> bytes;
        std::optional<WriteLoan> loan;  // of a slab of the pool
    };
    static Target target_of(WriteLoan loan);

    // `header_fields`: slab and generation are filled in.
    SlabFilling(Target target, const SlabLayout& layout, SlabWriter::HeaderFields header_fields, Stream& stream,
                CopyEvents& events);
    ~SlabFilling();
    SlabFilling(const SlabFilling&) = delete;
    SlabFilling& operator=(const SlabFilling&) = delete;

    // Rows [first_row, first_row + rows) of the batch, copied once `computed` is done. False, and nothing changed: no
    // room.
    bool add(const std::shared_ptr<OutputBatch>& batch, std::uint32_t first_row, std::uint32_t rows);
    // So many samples were dropped just before this slab, and so many items of those batches were skipped.
    void note_dropped(const OutputBatch::Counts& counts) {
        published_.dropped += counts.samples;
        published_.skipped += counts.skipped;
    }
    void close();
    // Sleeps until the copies are done, has the rows reviewed and completes the header. The target may be published
    // from now on. Errors: also those of RowReview: nobody gets such a slab.
    const PublishedSlab& wait_copied(OutputCounters& counters, DeviceTimeline& timeline);

    // To whoever publishes it: the target, or of a slab of the pool its loan. Once.
    Target take_target() { return std::move(target_); }
    WriteLoan take_loan() { return std::move(*target_.loan); }
    const PublishedSlab& published() const { return published_; }

  private:
    void review_rows(OutputCounters& counters);

    Target target_;
    const SlabLayout& layout_;
    Stream& stream_;
    CopyEvents& events_;
    SlabWriter writer_;
    PublishedSlab published_;
    std::uint64_t copied_bytes_ = 0;  // of published_.bytes: the rest are zeros of batches without outputs
    struct Part {
        std::shared_ptr<OutputBatch> batch;
        std::uint32_t first_row = 0;
        std::uint32_t rows = 0;
    };
    std::vector<Part> parts_;
    std::vector<SampleEntry> entries_;
    bool copying_ = false;  // submitted, and not seen done
};

}  // namespace offramp
