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
#include "producer/runner/ingest/input_batch.hpp"
#include "producer/runner/ingest/input_upload.hpp"
#include "producer/runner/ingest/picture_decoder.hpp"
#include "producer/runner/ingest/skipped_items.hpp"
#include "producer/runner/ingest/staging.hpp"
#include "producer/runner/models/model.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

struct PrefetchSettings {
    ModelInput input;         // the model's input
    std::uint32_t batch = 1;  // items in a full batch; input.tensor.rows() if there is an input
    std::uint32_t decode_workers = 1;
    std::uint32_t depth = 2;  // batches to prepare ahead of the one being computed
    std::string max_errors = "100%";
    ErrorBudget::Of items_are = ErrorBudget::Of::Whole;
    ErrorBudget::Items kind = ErrorBudget::Items::Any;
    std::uint64_t items = 0;             // number of items in the source, the base of max_errors; 0: all
    std::uint64_t seed = 0;              // for a resident input
    DeviceTimeline* timeline = nullptr;  // records uploads; null: no recording
    ItemRanges done;                     // completed by earlier runs and producers: skipped (BatchPlan)
    std::uint64_t skipped_before = 0;    // items of `done`
    bool decode_on_gpu = false;          // JPEG files of pictures, where the GPU's decoder takes them
};

// The first item of each batch, for a model whose input varies; otherwise empty: every `batch` items. Depends only on
// the items' shapes, so that each run has the same batches.
std::vector<std::uint64_t> starts_of_batches(const BatchSource& source, const TensorSpec& input, std::uint32_t batch);

// Brings a source's items onto the device ahead of the model. Decode workers fill page-locked staging; one thread
// uploads whole batches on its own stream and hands them out in order. Batch k is the items [k*batch, (k+1)*batch); an
// unreadable item is an empty row of it, never a shift. If the model's input varies, a batch is at most
// `batch` consecutive items of equal shape (BatchSource::shape()); an item that stays unreadable changes no batch. If
// batches are computed by length (ModelInput::group_rows), completed rows are also read: the grouping of texts depends
// on the whole batch, whatever was completed before. Owns threads ("decode-0".., "upload"), copy stream, depth+1
// staging buffers, depth+1 device inputs: nothing is allocated per batch except the rows' descriptions. Borrows device,
// source, timeline and clock, which outlive it and all its batches. Thread: next(): one; the others: any, except that
// stop() and the destructor are not called from a source's load(). Blocks: next() until a batch is there; stop() until
// items in the making are done. Errors: the constructor: ConfigError (max_errors; a source that does not fit the
// model), DeviceOutOfMemory. next(): the first failure of any thread, and BadInput when more items were skipped than
// max_errors allows, or all of a whole were.
class Prefetcher {
  public:
    Prefetcher(Device& device, BatchSource& source, PrefetchSettings settings, const Clock& clock = kSteadyClock);
    ~Prefetcher();
    Prefetcher(const Prefetcher&) = delete;
    Prefetcher& operator=(const Prefetcher&) = delete;

    // Also returns batches without readable items (InputBatch::left_out), in order. Nothing: the source is exhausted,
    // or finish_early() or stop() was called.
    std::optional<InputBatch> next();
    // The number of the batch that next() will return. Nothing: all batches were handed out. Thread: that of next().
    std::optional<std::uint64_t> upcoming() const;

    // Hands out no further batch; earlier ones stay valid. Does not wait.
    void finish_early() noexcept;
    // Like finish_early(), and waits for the threads to end.
    void stop() noexcept;

    // Counts of delivered batches, and waits, which include one still in progress.
    struct Progress {
        std::uint64_t batches_delivered = 0;  // except batches that were left out
        // Wanted rows, including empty ones, of all batches from next().
        std::uint64_t items_delivered = 0;
        std::uint64_t items_skipped = 0;   // among the delivered
        double next_blocked_seconds = 0;   // the model waits for input
        double h2d_seconds = 0;            // device time of the uploads, from event pairs
        std::uint64_t tokens = 0;          // uploaded tokens of texts
        std::uint64_t padded_tokens = 0;   // including padding of rows and batches
        std::uint64_t decoded_on_gpu = 0;  // pictures
    };
    Progress progress() const;
    // Skips an item that was read but yielded no result, like an unreadable one. True: the skipped items now exceed
    // max_errors, or are all items. Thread: any.
    bool skip(std::uint64_t item, const std::string& reason);
    // The batch's first and last item, by the names of the source, for errors.
    std::string name_of(const InputBatch& batch) const;
    // Skips the items of a batch from next() that the model refused. Errors: those of next(). Thread: that of next().
    void refuse(InputBatch& batch, const std::string& reason);
    // Ends the input for that reason: from now on next() and require_good() throw it. Thread: any.
    void end_for_skipped();
    // Errors: those of next(), also after its last batch.
    void require_good();

    // Items skipped in delivered batches, and by skip(). A batch that is never delivered skips nothing: all of it
    // remains to be done.
    const SkippedItems& skipped() const { return skipped_; }
    // Further unreadable items in batches not delivered (yet). Similar parts that were partly delivered are represented
    // by their last one. Nothing if more were found than are kept.
    std::vector<SkippedItem> unreadable_upcoming() const;

  private:
    SkippedItem skipped_item(std::uint64_t item, const std::string& reason) const;
    void decode(std::uint32_t worker) noexcept;
    void load(const StagingWindow::Claim& claim);
    void load_row(const StagingWindow::Claim& claim);
    void load_done_row(const StagingWindow::Claim& claim);
    void upload() noexcept;
    void upload_batches();
    bool leave_out(StagingWindow::Batch& batch);
    void upload_one(StagingWindow::Batch batch, const TensorSpec& tensor);
    TensorSpec input_of(std::uint64_t number) const;
    ModelInput largest_input() const;
    // Completed rows, too: the others' results depend on them.
    bool stages_all_rows() const { return packing_.has_value() || settings_.input.needs_all_rows; }
    void decode_on_gpu(StagingWindow::Batch& batch, const TensorSpec& tensor);
    void load_on_cpu(StagingWindow::Batch& batch, std::size_t row, std::span<std::byte> pixels);
    void make_empty(RowInfo& row, std::span<std::byte> bytes, const std::string& reason);
    void count_tokens(const LengthGroups* groups, std::span<const TokenRows> texts);
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
    SkippedItems found_;  // so far, including batches not yet delivered and skip(): the basis of max_errors
    SkippedItems skipped_;

    std::unique_ptr<DeviceBuffer> resident_;
    std::optional<InputUpload> upload_;      // like the members below, set only when rows are uploaded
    std::optional<PictureDecoder> decoder_;  // set only if pictures are decoded on the GPU
    std::optional<LengthPacking> packing_;   // set only for batches that are computed by length
    std::optional<StagingWindow> staging_;
    std::shared_ptr<InputSlots> inputs_;
    std::unique_ptr<Stream> copies_;
    std::unique_ptr<Event> upload_began_, uploaded_;

    BoundedQueue<InputBatch> queue_;
    std::uint64_t next_turn_ = 0;  // used by the thread that calls next()
    std::atomic<bool> finished_{false};
    std::atomic<std::uint64_t> tokens_{0}, padded_tokens_{0};
    std::atomic<std::uint64_t> batches_delivered_{0}, items_delivered_{0}, items_skipped_{0};
    std::atomic<std::uint64_t> h2d_ns_{0};
    std::atomic<std::uint64_t> decoded_on_gpu_{0};
    std::mutex failure_mutex_;
    std::exception_ptr failure_;
    std::mutex threads_mutex_;  // stop() may be called by several
    std::vector<std::thread> threads_;
};

}  // namespace offramp
