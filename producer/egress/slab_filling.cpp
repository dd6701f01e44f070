#include "producer/egress/slab_filling.hpp"

#include <algorithm>
#include <array>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/log.hpp"
#include "common/base/trace.hpp"

namespace offramp {

SlabFilling::SlabFilling(WriteLoan loan, const SlabLayout& layout, SlabWriter::HeaderFields header_fields,
                         Stream& stream, CopyEvents& events)
    : loan_(std::move(loan)), layout_(layout), stream_(stream), events_(events), writer_(loan_.bytes(), layout) {
    header_fields.slab = loan_.slab();
    header_fields.generation = loan_.generation();
    writer_.begin(header_fields);
}

SlabFilling::~SlabFilling() {
    if (!copying_) return;
    try {
        stream_.synchronize();
    } catch (const std::exception& problem) {
        spdlog::error("waiting for the copies of an abandoned slab: {}", problem.what());
    }
}

// Adds the rows to the header, and returns how many.
std::uint32_t SlabFilling::take_rows(const OutputBatch& batch, std::uint32_t first_row, std::uint32_t rows) {
    entries_.clear();
    sample_bytes_.clear();
    for (std::uint32_t row = first_row; row < first_row + rows; ++row) {
        const RowInfo& entry = batch.rows[row];
        entries_.push_back({entry.item, entry.key, entry.empty, entry.metadata});
        if (layout_.varies()) sample_bytes_.push_back(batch.varying_bytes(row));
    }
    if (layout_.varies()) entries_.resize(writer_.room_for(entries_, sample_bytes_));
    if (entries_.empty() || !writer_.add_batch(batch.number, first_row, entries_)) return 0;
    return static_cast<std::uint32_t>(entries_.size());
}

std::uint32_t SlabFilling::add(const std::shared_ptr<OutputBatch>& batch, std::uint32_t first_row,
                               std::uint32_t wanted) {
    const std::uint32_t at = writer_.rows();
    const std::uint32_t rows = take_rows(*batch, first_row, wanted);
    if (rows == 0) return 0;
    if (parts_.empty()) published_.first_batch = batch->number;
    const OutputBatch::Counts counts = batch->count(first_row, rows);
    published_.samples += counts.samples;
    published_.skipped += counts.skipped;
    published_.items_through = batch->rows[first_row + rows - 1].item + 1;
    published_.batches_ended += first_row + rows == batch->rows.size() ? 1U : 0U;
    parts_.push_back({.batch = batch, .first_row = first_row, .rows = rows});

    if (batch->computed) stream_.wait_for(*batch->computed);
    if (!copying_) stream_.record(*events_.began);
    copying_ = true;
    for (std::size_t i = 0; i < layout_.tensors.size(); ++i) {
        if (layout_.tensors[i].varies())
            copy_samples(*batch, i, first_row, rows, at);
        else
            copy_rows(*batch, i, first_row, rows, at);
    }
    return rows;
}

void SlabFilling::copy_rows(const OutputBatch& batch, std::size_t tensor, std::uint32_t first_row, std::uint32_t rows,
                            std::uint32_t slab_row) {
    const auto to = writer_.tensor_rows(tensor, slab_row, rows);
    if (batch.tensors.empty()) {
        std::ranges::fill(to, std::byte{0});  // no copy writes these rows
        published_.bytes += to.size();
        return;
    }
    stream_.copy_to_host(
        to.data(),
        static_cast<const std::byte*>(batch.tensors[tensor].data) + first_row * layout_.tensors[tensor].row_bytes(),
        to.size());
    count_copied(to.size());
}

// Packed samples are one copy. Others are never joined, even if they are neighbours in memory: a copy must not cross
// from one of the device's allocations into the next.
void SlabFilling::copy_samples(const OutputBatch& batch, std::size_t tensor, std::uint32_t first_row,
                               std::uint32_t rows, std::uint32_t slab_row) {
    const std::size_t varying = layout_.tensors[tensor].varying_dims();
    const std::array<std::int64_t, kMaxDims> no_extents{};
    copies_.clear();
    for (std::uint32_t row = 0; row < rows; ++row) {
        if (batch.tensors.empty()) {
            writer_.place_row(tensor, slab_row + row, std::span(no_extents).first(varying), false);
            continue;
        }
        const DeviceTensor& given = batch.tensors[tensor];
        const auto extents = std::span(given.extents).subspan((first_row + row) * varying, varying);
        const bool follows = given.data != nullptr && !copies_.empty();
        const auto to = writer_.place_row(tensor, slab_row + row, extents, follows);
        if (to.empty()) continue;
        if (follows)
            copies_.back().bytes += to.size();
        else
            copies_.push_back({.to = to.data(), .from = given.samples[first_row + row].data, .bytes = to.size()});
        count_copied(to.size());
    }
    stream_.copy_all_to_host(copies_);
}

void SlabFilling::count_copied(std::size_t bytes) {
    published_.bytes += bytes;
    copied_bytes_ += bytes;
}

// An item with an invalid output becomes an empty row for consumers.
void SlabFilling::review_rows(OutputCounters& counters) {
    std::uint32_t slab_row = 0, rejected = 0;
    RowReview* review = nullptr;
    for (const Part& part : parts_) {
        review = part.batch->review;
        for (std::uint32_t row = part.first_row; row < part.first_row + part.rows; ++row, ++slab_row) {
            const RowInfo& info = part.batch->rows[row];
            if (info.empty) continue;
            if (review == nullptr || review->passes(*part.batch, row, writer_, slab_row)) {
                append_item(published_.items, info.item);
                continue;
            }
            writer_.make_empty(slab_row);
            ++rejected;
        }
    }
    published_.samples -= rejected;
    published_.skipped += rejected;
    counters.rejected(rejected);
    if (review != nullptr) review->end_slab();
}

void SlabFilling::close() {
    writer_.finish(now_ns());
    const TraceRange range(TraceName::QueueCudaEvent, published_.first_batch);
    stream_.record(*events_.copied);
}

const PublishedSlab& SlabFilling::wait_copied(OutputCounters& counters, DeviceTimeline& timeline) {
    events_.copied->wait();
    copying_ = false;
    review_rows(counters);
    published_.filled_at_ns = now_ns();
    writer_.write_filled_at(published_.filled_at_ns);
    // If batches share the slab, the stream waited for later ones in between: that is not copy time.
    counters.copied(copied_bytes_);
    if (parts_.size() == 1) counters.timed(events_.copied->seconds_since(*events_.began));
    timeline.add("d2h", published_.first_batch, *events_.began, *events_.copied);
    parts_.clear();
    return published_;
}

SlabCompletion::SlabCompletion(Device& device, std::shared_ptr<SlabExchange> exchange, OutputCounters& counters,
                               DeviceTimeline& timeline, std::size_t capacity, std::function<void()> on_failure)
    : device_(device),
      exchange_(std::move(exchange)),
      counters_(counters),
      timeline_(timeline),
      on_failure_(std::move(on_failure)),
      in_flight_(capacity),
      thread_([this] { publish_completed(); }) {}

SlabCompletion::~SlabCompletion() {
    in_flight_.close();
    if (thread_.joinable()) thread_.join();
}

void SlabCompletion::finish() {
    in_flight_.close();
    if (thread_.joinable()) thread_.join();
    rethrow_failure();
}

void SlabCompletion::publish_completed() {
    name_this_thread("egress-done");
    try {
        device_.use_on_this_thread();
        while (auto filling = in_flight_.pop()) {
            const PublishedSlab& published = (*filling)->wait_copied(counters_, timeline_);
            failpoint("egress.copied");
            counters_.published(published);
            exchange_->publish((*filling)->take_loan(), published);
            failpoint("egress.published");
        }
        // After a failure the run is not over: consumers must stay for a possible successor.
        if (!failed()) exchange_->finish();
    } catch (...) {
        fail(std::current_exception());
        in_flight_.abandon();  // each filling waits for its copies before it frees its slab
    }
}

void SlabCompletion::fail(std::exception_ptr failure) {
    {
        const std::lock_guard lock(failure_mutex_);
        if (!failure_) failure_ = std::move(failure);
    }
    exchange_->stop();
    on_failure_();
}

bool SlabCompletion::failed() {
    const std::lock_guard lock(failure_mutex_);
    return failure_ != nullptr;
}

void SlabCompletion::rethrow_failure() {
    const std::lock_guard lock(failure_mutex_);
    if (failure_) std::rethrow_exception(failure_);
}

}  // namespace offramp
