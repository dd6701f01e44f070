#include "producer/pipeline/egress_stream.hpp"

#include <algorithm>
#include <optional>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/log.hpp"
#include "common/base/trace.hpp"

namespace offramp {
namespace {

// Copies submitted and not yet done: enough to keep the copy engine busy, few enough that the outputs which they keep on the
// device are bounded whatever the number of slabs.
std::size_t parts_in_flight(const EgressStream::Options& options, const SlabLayout& layout) {
    const auto rows = static_cast<std::size_t>(layout.rows);
    return std::max<std::size_t>(4, 2 * ((options.batch + rows - 1) / rows));
}

}  // namespace

EgressStream::EgressStream(Device& device, std::shared_ptr<SlabExchange> exchange, const SlabLayout& layout,
                           Options options, std::function<void()> on_failure)
    : device_(device),
      exchange_(std::move(exchange)),
      layout_(layout),
      options_(std::move(options)),
      on_failure_(std::move(on_failure)),
      events_(options_.slab_count),
      submitted_(options_.queue_depth),
      in_flight_(parts_in_flight(options_, layout)),
      stream_(device.make_stream("egress")) {
    for (SlabEvents& events : events_)
        events = {device.make_event(Device::Timing::On), device.make_event(Device::Timing::On)};
    copy_thread_ = std::thread([this] { copy_batches(); });
    completion_thread_ = std::thread([this] { publish_completed(); });
}

EgressStream::~EgressStream() {
    stop();
    if (copy_thread_.joinable()) copy_thread_.join();
    if (completion_thread_.joinable()) completion_thread_.join();
}

bool EgressStream::submit(OutputBatch batch) {
    expect(batch.tensors.size() == layout_.tensors.size(), "a batch has the layout's outputs");
    expect(batch.computed && batch.computed->armed(), "the event behind the outputs is armed");
    ++batches_submitted_;
    for (const RowInfo& row : batch.rows) samples_submitted_ += row.hole ? 0 : 1;
    const bool taken = submitted_.push(std::move(batch));
    if (const std::lock_guard lock(failure_mutex_); failure_) std::rethrow_exception(failure_);
    return taken;
}

void EgressStream::finish() {
    submitted_.close();
    if (copy_thread_.joinable()) copy_thread_.join();
    if (completion_thread_.joinable()) completion_thread_.join();
    if (failure_) std::rethrow_exception(failure_);
}

void EgressStream::stop() {
    stopped_ = true;
    submitted_.close();
    exchange_->stop();
}

EgressStream::Dropped EgressStream::dropped() const {
    return {batches_submitted_ - batches_published_, samples_submitted_ - samples_published_};
}

double EgressStream::copy_seconds() const { return static_cast<double>(copy_ns_) / 1e9; }

// --- copy thread ---

void EgressStream::copy_batches() {
    name_this_thread("egress-copy");
    try {
        device_.use_on_this_thread();
        while (auto batch = submitted_.pop()) {
            if (stopped_ || !copy_batch(std::make_shared<OutputBatch>(std::move(*batch)))) break;
        }
    } catch (...) {
        fail();
    }
    submitted_.abandon();   // nobody takes any more
    in_flight_.close();
}

bool EgressStream::copy_batch(const std::shared_ptr<OutputBatch>& batch) {
    const TraceRange range(TraceName::CopyToCpu, batch->number);
    stream_->wait_for(*batch->computed);
    const auto rows = static_cast<std::uint32_t>(batch->rows.size());
    const auto part = static_cast<std::uint32_t>(layout_.rows);
    for (std::uint32_t first = 0; first < rows; first += part) {
        auto lease = exchange_->wait_for_slab();
        if (!lease) return false;
        if (!in_flight_.push(copy_part(std::move(*lease), batch, first, std::min(part, rows - first)))) return false;
    }
    return true;
}

EgressStream::InFlight EgressStream::copy_part(FillLease lease, const std::shared_ptr<OutputBatch>& batch,
                                               std::uint32_t first_row, std::uint32_t rows) {
    SlabWriter::Stamp stamp = options_.stamp;
    stamp.slab = lease.slab();
    stamp.generation = lease.generation();
    SlabWriter writer(lease.bytes(), layout_);
    writer.begin(stamp);
    std::vector<SampleEntry> samples;
    samples.reserve(rows);
    PublishedSlab published{.first_batch = batch->number,
                            .batches_ended = first_row + rows == batch->rows.size() ? 1U : 0U};
    for (std::uint32_t row = first_row; row < first_row + rows; ++row) {
        const RowInfo& entry = batch->rows[row];
        samples.push_back({entry.item, entry.key, entry.hole});
        published.samples += entry.hole ? 0 : 1;
    }
    expect(writer.add_batch(batch->number, first_row, samples), "a part fits the slab that was laid out for it");
    writer.finish(now_ns());

    const SlabEvents& events = events_[lease.slab()];
    try {
        stream_->record(*events.began);
        for (std::size_t i = 0; i < batch->tensors.size(); ++i) {
            const DeviceTensor& tensor = batch->tensors[i];
            const std::size_t row_bytes = layout_.tensors[i].row_bytes();
            const auto to = writer.tensor_rows(i, 0, rows);
            stream_->copy_to_host(to.data(), static_cast<const std::byte*>(tensor.data) + first_row * row_bytes,
                                  to.size());
            published.bytes += to.size();
        }
        const TraceRange range(TraceName::QueueCudaEvent, batch->number);
        stream_->record(*events.copied);
    } catch (...) {
        // The lease must not go back while something already submitted still writes.
        stream_->synchronize();
        throw;
    }
    return {std::move(lease), events.copied.get(), events.began.get(), published, batch};
}

// --- completion thread ---

void EgressStream::publish_completed() {
    name_this_thread("egress-done");
    std::optional<InFlight> part;
    try {
        device_.use_on_this_thread();
        while ((part = in_flight_.pop())) {
            part->copied->wait();
            part->published.filled_at_ns = now_ns();
            SlabWriter(part->lease.bytes(), layout_).stamp_filled(part->published.filled_at_ns);
            copy_ns_ += static_cast<std::uint64_t>(part->copied->seconds_since(*part->began) * 1e9);
            bytes_copied_ += part->published.bytes;
            batches_published_ += part->published.batches_ended;
            samples_published_ += part->published.samples;
            exchange_->publish(std::move(part->lease), part->published);
        }
        exchange_->finish();
    } catch (...) {
        fail();
        in_flight_.close();
        // Neither slab nor tensor goes back while a copy may still run.
        try {
            stream_->synchronize();
        } catch (const std::exception& problem) {
            spdlog::error("ending the egress stream: {}", problem.what());
        }
    }
}

void EgressStream::fail() {
    {
        const std::lock_guard lock(failure_mutex_);
        if (!failure_) failure_ = std::current_exception();
    }
    stop();
    on_failure_();
}

}  // namespace offramp
