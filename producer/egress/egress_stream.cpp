#include "producer/egress/egress_stream.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/log.hpp"
#include "common/base/trace.hpp"
#include "producer/egress/slab_plan.hpp"

namespace offramp {
namespace {

// Copies submitted and not yet done. Enough to keep the copy engine busy; few enough to bound the outputs held on the
// device, whatever the number of slabs.
std::size_t slabs_in_flight(const EgressStream::Options& options, const SlabLayout& layout) {
    const auto rows = static_cast<std::size_t>(layout.rows);
    return std::max<std::size_t>(4, 2 * ((options.batch + rows - 1) / rows));
}

std::uint64_t bytes_of(const OutputBatch& batch, std::uint32_t first_row, std::uint32_t rows,
                       const SlabLayout& layout) {
    std::uint64_t bytes = 0;
    for (const TensorSpec& tensor : layout.tensors)
        if (!tensor.varies()) bytes += rows * tensor.row_bytes();
    for (const DeviceTensor& tensor : batch.tensors)
        for (std::uint32_t row = first_row; !tensor.samples.empty() && row < first_row + rows; ++row)
            bytes += tensor.samples[row].bytes;
    return bytes;
}

}  // namespace

EgressStream::EgressStream(Device& device, std::shared_ptr<SlabExchange> exchange, const SlabLayout& layout,
                           DeviceTimeline& timeline, Options options, std::function<void()> on_failure)
    : device_(device),
      exchange_(std::move(exchange)),
      layout_(layout),
      options_(std::move(options)),
      events_(options_.slab_count),
      stream_(device.make_stream("egress")),
      submitted_(options_.queue_depth, kBytesAhead,
                 [this](const OutputBatch& batch) {
                     const auto rows = static_cast<std::uint32_t>(batch.rows.size());
                     std::uint64_t bytes = bytes_of(batch, 0, rows, layout_);
                     for (const DeviceTensor& tensor : batch.tensors) bytes += tensor.padding_bytes;
                     return bytes > kSmallBatch ? kBytesAhead : bytes;  // nothing follows a big one
                 }),
      completion_(device, exchange_, counters_, timeline, slabs_in_flight(options_, layout), std::move(on_failure)) {
    for (CopyEvents& events : events_) events = CopyEvents::make(device);
    copy_thread_ = std::thread([this] { copy_batches(); });
}

EgressStream::~EgressStream() {
    stop();
    if (copy_thread_.joinable()) copy_thread_.join();
}

bool EgressStream::submit(OutputBatch batch) {
    if (batch.tensors.empty()) {
        expect(std::ranges::all_of(batch.rows, &RowInfo::empty), "a batch without outputs has empty rows alone");
    } else {
        expect(batch.tensors.size() == layout_.tensors.size(), "a batch has the layout's outputs");
        expect(batch.computed && batch.computed->armed(), "the event behind the outputs is armed");
    }
    counters_.submitted(batch);
    const TraceRange range(TraceName::QueueOutput, batch.number);
    if (submitted_.push(std::move(batch))) return true;  // the next call throws a failure of this time
    release(batch);                                      // NOLINT(bugprone-use-after-move): it was not taken
    completion_.rethrow_failure();
    return false;
}

void EgressStream::finish() {
    submitted_.close();
    if (copy_thread_.joinable()) copy_thread_.join();
    completion_.finish();
}

void EgressStream::stop() {
    stopped_ = true;
    submitted_.close();
    exchange_->stop();
}

void EgressStream::copy_batches() {
    name_this_thread("egress-copy");
    try {
        device_.use_on_this_thread();
        while (!submitted_.drained()) {
            auto batch = open_ ? submitted_.pop_until(open_until_) : submitted_.pop();
            if (stopped_) {
                if (batch) release(*batch);
                break;
            }
            const bool goes_on = batch ? copy_batch(std::make_shared<OutputBatch>(std::move(*batch))) : send_off();
            if (!goes_on) break;
        }
        if (!stopped_) send_off();
    } catch (...) {
        completion_.fail(std::current_exception());  // before submit() returns because of the stop
        stop();
    }
    submitted_.close();  // wakes submit(): nothing is popped any more
    while (const auto batch = submitted_.try_pop()) release(*batch);
    open_.reset();
    completion_.close();
}

bool EgressStream::copy_batch(const std::shared_ptr<OutputBatch>& batch) {
    const TraceRange range(TraceName::CopyToCpu, batch->number);
    try {
        const auto all = static_cast<std::uint32_t>(batch->rows.size());
        std::uint32_t first = 0;
        while (first < all) {
            const auto most = std::min(static_cast<std::uint32_t>(layout_.rows), all - first);
            const std::uint32_t rows = copy_part(batch, first, most);
            if (rows == 0) break;
            first += rows;
        }
        if (first == all) return true;
    } catch (...) {
        release(*batch);
        throw;
    }
    release(*batch);
    return false;
}

// For batches that are dropped before their copies were seen done.
void release(const OutputBatch& batch) noexcept {
    try {
        if (batch.computed) batch.computed->wait();
    } catch (const std::exception& problem) {
        spdlog::error("waiting for the outputs of batch {}, which is dropped: {}", batch.number, problem.what());
    }
}

// Copies into the open slab or a new one. The slab stays open while another batch may join it. Returns the number of
// rows that were copied or dropped; 0: the run has ended.
std::uint32_t EgressStream::copy_part(const std::shared_ptr<OutputBatch>& batch, std::uint32_t first_row,
                                      std::uint32_t rows) {
    if (open_) {
        if (const std::uint32_t added = open_->add(batch, first_row, rows)) return added;
        if (!send_off()) return 0;
    }
    auto loan = exchange_->wait_for_slab(options_.when_none);
    if (!loan) {
        const std::uint32_t dropped = rows_of_a_slab(batch->tensors, first_row, rows, layout_);
        return !exchange_->stopped() && drop(*batch, first_row, dropped) ? dropped : 0;
    }
    failpoint("egress.slab_taken");
    CopyEvents& events = events_[loan->slab()];
    open_ = std::make_unique<SlabFilling>(std::move(*loan), layout_, options_.header_fields, *stream_, events);
    open_->note_dropped(std::exchange(dropped_, {}));
    open_until_ = SteadyClock().now() + options_.max_delay;
    const std::uint32_t added = open_->add(batch, first_row, rows);
    expect(added > 0, "a part fits the slab that was laid out for it");
    return layout_.batches > 1 || send_off() ? added : 0;
}

bool EgressStream::drop(const OutputBatch& batch, std::uint32_t first_row, std::uint32_t rows) {
    if (batch.computed) batch.computed->wait();
    const OutputBatch::Counts counts = batch.count(first_row, rows);
    dropped_.samples += counts.samples;
    dropped_.skipped += counts.skipped;
    counters_.dropped(counts.samples, bytes_of(batch, first_row, rows, layout_), first_row + rows == batch.rows.size());
    if (options_.on_dropped) options_.on_dropped(batch.number, std::span(batch.rows).subspan(first_row, rows));
    return true;
}

// False: the completion has failed.
bool EgressStream::send_off() {
    if (!open_) return true;
    open_->close();
    return completion_.hand_over(std::move(open_));
}

}  // namespace offramp
