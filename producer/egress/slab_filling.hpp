#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/bounded_queue.hpp"
#include "common/wire/slab_layout.hpp"
#include "common/wire/slab_view.hpp"
#include "producer/device/device.hpp"
#include "producer/device/device_timeline.hpp"
#include "producer/egress/output_batch.hpp"
#include "producer/egress/output_counters.hpp"
#include "producer/pool/slab_exchange.hpp"

namespace offramp {

// A pair of events with timing, around the copies into one slab.
struct CopyEvents {
    std::unique_ptr<Event> began, copied;
    static CopyEvents make(Device& device) {
        return {device.make_event(Device::Timing::On), device.make_event(Device::Timing::On)};
    }
};

// One slab while it is filled. Rows of one batch, or the last rows of one and whole small batches, are put on a stream
// as copies, with their header. Order: add() as long as it takes rows, close(), wait_copied().
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

    // Copies rows [first_row, first_row + rows) of the batch once `computed` is done: all of them or none, or, if
    // samples differ in shape, the first that fit. Returns how many.
    std::uint32_t add(const std::shared_ptr<OutputBatch>& batch, std::uint32_t first_row, std::uint32_t rows);
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
    std::uint32_t take_rows(const OutputBatch& batch, std::uint32_t first_row, std::uint32_t rows);
    void copy_rows(const OutputBatch& batch, std::size_t tensor, std::uint32_t first_row, std::uint32_t rows,
                   std::uint32_t slab_row);
    void copy_samples(const OutputBatch& batch, std::size_t tensor, std::uint32_t first_row, std::uint32_t rows,
                      std::uint32_t slab_row);
    void count_copied(std::size_t bytes);
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
    std::vector<std::size_t> sample_bytes_;  // of the entries, where samples differ in shape
    std::vector<Stream::HostCopy> copies_;   // likewise
    bool copying_ = false;                   // submitted, and not yet seen done
};

// Publishes slabs in the order in which their copies were submitted, each once its event is done. Its thread
// ("egress-done") waits for events on behalf of all others. Owns: its thread, and the fillings handed over. Borrows:
// device, exchange, counters, timeline. Thread: hand_over() and finish() from one; fail() from any. Blocks: hand_over()
// while `capacity` copies are in flight; finish() until all are published. Errors: the thread's failure is thrown by
// finish(); on_failure is called when it happens.
class SlabCompletion {
  public:
    SlabCompletion(Device& device, std::shared_ptr<SlabExchange> exchange, OutputCounters& counters,
                   DeviceTimeline& timeline, std::size_t capacity, std::function<void()> on_failure);
    ~SlabCompletion();
    SlabCompletion(const SlabCompletion&) = delete;
    SlabCompletion& operator=(const SlabCompletion&) = delete;

    // Takes a closed filling. False after a failure: it was not taken.
    bool hand_over(std::unique_ptr<SlabFilling> filling) { return in_flight_.push(std::move(filling)); }
    // Nothing more will come; publishes what is in flight.
    void close() { in_flight_.close(); }
    void finish();
    // Reports a failure elsewhere in the path: it becomes the egress path's, if it is the first.
    void fail(std::exception_ptr failure);
    void rethrow_failure();

  private:
    void publish_completed();
    bool failed();

    Device& device_;
    std::shared_ptr<SlabExchange> exchange_;
    OutputCounters& counters_;
    DeviceTimeline& timeline_;
    std::function<void()> on_failure_;
    BoundedQueue<std::unique_ptr<SlabFilling>> in_flight_;
    std::mutex failure_mutex_;
    std::exception_ptr failure_;
    std::thread thread_;
};

}  // namespace offramp
