#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/bounded_queue.hpp"
#include "producer/device/device.hpp"
#include "producer/device/device_timeline.hpp"
#include "producer/runner/ingest/batch_plan.hpp"
#include "producer/runner/ingest/error_budget.hpp"
#include "producer/runner/ingest/input_batch.hpp"
#include "producer/runner/ingest/input_upload.hpp"
#include "producer/runner/ingest/length_packing.hpp"
#include "producer/runner/ingest/skipped_items.hpp"
#include "producer/runner/ingest/staging.hpp"
#include "producer/runner/models/model.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

struct PrefetchSettings {
    ModelInput input;         // what the model takes
    std::uint32_t batch = 1;  // items in a batch; input.tensor.rows() where there is an input
    std::uint32_t decode_workers = 1;
    std::uint32_t depth = 2;  // batches made ahead of the one that is computed on
    std::string max_errors = "100%";
    ErrorBudget::Of items_are = ErrorBudget::Of::Whole;
    ErrorBudget::Items kind = ErrorBudget::Items::Any;
    std::uint64_t items = 0;             // of the source, of which max_errors is a share; 0: all
    std::uint64_t seed = 0;              // of a resident input
    DeviceTimeline* timeline = nullptr;  // where uploads are recorded; null: nowhere
    ItemRanges done;                     // earlier, by runs and producers before: these are not made again (BatchPlan)
    std::uint64_t skipped_before = 0;    // of them
};

// Brings a source's items onto the device ahead of the model: decode workers fill page-locked staging, one
// thread uploads whole batches on a stream of its own and hands them out in order. Batch k is the items
// [k*batch, (k+1)*batch); an item that cannot be read is an empty row of it, never a shift. Where batches are computed
// by length (ModelInput::group_rows), rows that are done are read as well: which texts are computed together follows
// from all of a batch, whatever was done before. Owns threads
// ("decode-0".., "upload"), copy stream, depth+1 staging buffers, depth+1 device inputs: nothing is allocated
// per batch but the rows' descriptions. Borrows device, source, timeline and clock, which outlive it and every batch
// that it gave out. Thread: next(): one; the others: any, except that stop() and the destructor are not
// called from a source's load(). Blocks: next() until a batch is there; stop() until items in the making are
// done. Errors: the constructor: ConfigError (max_errors; a source that does not fit the model),
// DeviceOutOfMemory. next(): the first failure of any thread, and BadInput when more items were skipped
// than max_errors allows, or all of a whole were.
class Prefetcher {
  public:
    Prefetcher(Device& device, BatchSource& source, PrefetchSettings settings, const Clock& clock = kSteadyClock);
    ~Prefetcher();
    Prefetcher(const Prefetcher&) = delete;
    Prefetcher& operator=(const Prefetcher&) = delete;

    // Also batches of which nothing could be read (InputBatch::left_out), in their turn. Nothing: the source is
    // exhausted, or finish_early() or stop() was called.
    std::optional<InputBatch> next();
    // The number of the batch that next() waits for, before it is there. Nothing: all were given out. Thread: that of
    // next().
    std::optional<std::uint64_t> upcoming() const;

    // Gives out no further batch; those that were given out stay good. Does not wait.
    void finish_early() noexcept;
    // The same, and waits for the threads to end.
    void stop() noexcept;

    // Where batches are and which stage waits for which, for the status page. Seconds include waits that
    // still last.
    struct Progress {
        std::uint64_t batches_delivered = 0;  // without those that were left out
        // Rows that were wanted, empty ones included, of all that next() gave.
        std::uint64_t items_delivered = 0;
        std::uint64_t items_skipped = 0;  // of those
        std::uint64_t batches_queued = 0;
        double next_blocked_seconds = 0;  // the model waits for input
        double upload_blocked_on_decode_seconds = 0;
        double upload_blocked_on_model_seconds = 0;  // every device input is in use: back-pressure
        double decode_blocked_seconds = 0;           // thread-seconds; staging is full: back-pressure
        double h2d_seconds = 0;                      // device time of the uploads, from event pairs
        std::uint64_t tokens = 0;                    // uploaded, of texts
        std::uint64_t padded_tokens = 0;             // and with what fills rows and batches up
    };
    Progress progress() const;
    // An item that could be read came to nothing later on: it is skipped like those that could not. True: more are
    // skipped by now than max_errors allows, or all. Thread: any.
    bool skip(std::uint64_t item, const std::string& reason);
    // Ends the input for that: next() and require_good() throw it from now on. Thread: any.
    void end_for_skipped();
    // Errors: those of next(), also once it has given out everything.
    void require_good();

    // Those of items_skipped, and by skip(). Of a batch that is not given out any more nothing is skipped: all of it
    // is left to do.
    const SkippedItems& skipped() const { return skipped_; }
    // Found unreadable besides, in batches that were not given out, or not yet; of parts that are alike and were partly
    // given out, by the last of them. Nothing where more were found than are kept.
    std::vector<SkippedItem> unreadable_upcoming() const;

  private:
    SkippedItem skipped_item(std::uint64_t item, const std::string& reason) const;
    void decode(std::uint32_t worker) noexcept;
    void load_row(const StagingWindow::Claim& claim);
    void load_done_row(const StagingWindow::Claim& claim);
    void upload() noexcept;
    void upload_batches();
    bool leave_out(StagingWindow::Batch& batch);
    void upload_one(StagingWindow::Batch batch);
    void count_tokens(const StagingWindow::Batch& batch, const LengthGroups* groups);
    void book(std::span<const RowInfo> rows);
    void queue_resident_batches();
    void fail(std::exception_ptr error) noexcept;
    void close() noexcept;
    void rethrow_failure();

    Device& device_;
    BatchSource& source_;
    const PrefetchSettings settings_;
    const BatchPlan plan_;
    const ErrorBudget budget_;
    SkippedItems found_;  // so far, also in batches that were not given out yet, and by skip(): the budget's
    SkippedItems skipped_;

    std::unique_ptr<DeviceBuffer> resident_;
    std::optional<InputUpload> upload_;     // the rest only when rows are uploaded
    std::optional<LengthPacking> packing_;  // only of batches that are computed by length
    std::optional<StagingWindow> staging_;
    std::shared_ptr<InputSlots> inputs_;
    std::unique_ptr<Stream> copies_;
    std::unique_ptr<Event> upload_began_, uploaded_;

    BoundedQueue<InputBatch> queue_;
    std::uint64_t next_turn_ = 0;  // of the thread that calls next()
    std::atomic<bool> finished_{false};
    std::atomic<std::uint64_t> tokens_{0}, padded_tokens_{0};
    std::atomic<std::uint64_t> batches_delivered_{0}, items_delivered_{0}, items_skipped_{0};
    std::atomic<std::uint64_t> h2d_ns_{0};
    std::mutex failure_mutex_;
    std::exception_ptr failure_;
    std::mutex threads_mutex_;  // stop() may be called by several
    std::vector<std::thread> threads_;
};

}  // namespace offramp
