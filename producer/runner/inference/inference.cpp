#include "producer/runner/inference/inference.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/trace.hpp"
#include "common/base/utf8.hpp"
#include "common/wire/tensor_spec.hpp"
#include "producer/runner/models/run_failure.hpp"

namespace offramp {
namespace {

std::uint32_t skipped_in(const InputBatch& batch) {
    return static_cast<std::uint32_t>(
        std::ranges::count_if(batch.rows(), [](const RowInfo& row) { return row.empty && !row.done; }));
}

// Outputs of measurements are discarded, so their scores are not reviewed.
std::vector<DeviceTensor> outputs_of(Model& model, OutputTransformer& transformer, Stream& compute, const void* input) {
    std::vector<RowOutliers> unread;
    return transformer.apply(compute, model.run(input), unread);
}

// Whether an output of the model is the one that the slabs were laid out for.
bool has_layout(const TensorSpec& made, const TensorSpec& wanted) {
    if (!wanted.varies()) return with_settled_strides(made.with_rows(wanted.rows())) == wanted;
    if (made.dims == wanted.dims) {
        const bool is_same = made.dtype == wanted.dtype && made.name == wanted.name && made.dense_rows();
        for (std::size_t dim = 1; dim < made.dims; ++dim)
            if (wanted.shape[dim] != kVarying && wanted.shape[dim] != made.shape[dim]) return false;
        return is_same;
    }
    return made.dtype == wanted.dtype && made.name == wanted.name && made.dims + 1 == wanted.dims &&
           wanted.varying_dims() == 1 && wanted.shape[1] == kVarying && made.dense_rows() &&
           std::equal(made.shape.begin() + 1, made.shape.begin() + static_cast<std::ptrdiff_t>(made.dims),
                      wanted.shape.begin() + 2);
}

}  // namespace

void require_room(const OutputBatch& output, const SlabLayout& layout) {
    for (std::uint32_t row = 0; layout.varies() && row < output.rows.size(); ++row) {
        const std::size_t bytes = output.varying_bytes(row);
        if (bytes <= layout.varying_bytes) continue;
        const RowInfo& info = output.rows[row];
        throw RunFailure({.kind = FailureCause::Kind::SlabTooSmall, .slab_bytes = bytes},
                         "the outputs of item " + std::to_string(info.item) +
                             (info.key.empty() ? "" : " ('" + printable(info.key) + "')") + " have " +
                             std::to_string(bytes) + " bytes, and a slab has room for " +
                             std::to_string(layout.varying_bytes),
                         "Give --slab-bytes for the largest item, at least " + std::to_string(bytes));
    }
}

void cut_to_texts(DeviceTensor& tensor, const TensorSpec& wanted, std::span<const RowInfo> rows,
                  std::span<const TokenRows> texts) {
    expect(rows.size() <= texts.size(), "each row of a batch has its text's place");
    tensor.padding_bytes = tensor.spec.row_bytes() * static_cast<std::size_t>(tensor.spec.rows());
    const auto* const data = static_cast<const std::byte*>(tensor.data);
    const std::size_t token_bytes = tensor.spec.row_bytes();
    const auto tokens = static_cast<std::uint64_t>(tensor.spec.rows());
    for (std::size_t row = 0; row < rows.size(); ++row) {
        const TokenRows text = rows[row].empty ? TokenRows{} : texts[row];
        expect(text.first + text.count <= tokens, "a text's tokens are in the output");
        tensor.samples.push_back({.data = data + text.first * token_bytes, .bytes = text.count * token_bytes});
        tensor.padding_bytes -= text.count * token_bytes;
        tensor.extents.push_back(text.count);
    }
    tensor.spec = wanted;
    tensor.data = nullptr;  // padding separates the samples
}

void cut_to_rows(DeviceTensor& tensor, const TensorSpec& wanted, std::span<const RowInfo> rows) {
    expect(static_cast<std::int64_t>(rows.size()) <= tensor.spec.rows(), "each row of a batch has an output");
    const std::size_t row_bytes = tensor.spec.row_bytes();
    const auto* data = static_cast<const std::byte*>(tensor.data);
    tensor.padding_bytes = row_bytes * static_cast<std::size_t>(tensor.spec.rows());
    for (const RowInfo& row : rows) {
        tensor.samples.push_back({.data = data, .bytes = row.empty ? 0 : row_bytes});
        for (std::size_t dim = 1; dim < wanted.dims; ++dim)
            if (wanted.shape[dim] == kVarying) tensor.extents.push_back(row.empty ? 0 : tensor.spec.shape[dim]);
        tensor.padding_bytes -= tensor.samples.back().bytes;
        data += row_bytes;
    }
    if (std::ranges::any_of(rows, &RowInfo::empty)) tensor.data = nullptr;  // they separate the others
    tensor.spec = wanted;
}

Inference::Inference(Device& device, Model& model, OutputTransformer& transformer, Stream& compute,
                     DeviceTimeline& timeline, const SlabLayout& layout, Pace pace, Unread unread, RowReview* review)
    : device_(device),
      model_(model),
      transformer_(transformer),
      compute_(compute),
      layout_(layout),
      unread_(unread),
      review_(review),
      clock_(device, timeline, pace.depth, pace.timed),
      events_([&device] { return device.make_event(); }) {}

bool Inference::run(Prefetcher& input, RunOutputs& outputs, std::uint64_t batches) {
    while (batches > 0) {
        std::optional<TraceRange> step;
        if (const auto number = input.upcoming()) step.emplace(TraceName::Batch, *number);
        auto batch = get_batch(input);
        if (!batch) break;
        std::optional<OutputBatch> output;
        if (!batch->left_out()) {
            --batches;
            output = compute_batch(input, *batch);
        }
        if (!output && unread_ == Unread::EmitEmpty) output = describe(*batch);
        if (!output)
            skipped_before_ += skipped_in(*batch);
        else if (!submit(std::move(*output), outputs))
            return false;
    }
    clock_.settle();
    return batches == 0;
}

bool Inference::submit(OutputBatch output, RunOutputs& outputs) {
    const std::uint64_t began = now_ns();
    if (!outputs.submit(std::move(output))) return false;
    output_wait_ns_ += now_ns() - began;
    return true;
}

std::optional<InputBatch> Inference::get_batch(Prefetcher& input) {
    const TraceRange range(TraceName::GetBatch);
    return input.next();
}

OutputBatch Inference::describe(const InputBatch& input) {
    return {.number = input.number(),
            .rows = {input.rows().begin(), input.rows().end()},
            .skipped_before = std::exchange(skipped_before_, 0),
            .review = review_};
}

std::vector<DeviceTensor> Inference::run_model(const InputBatch& batch) {
    model_.begin_batch(batch.number());
    if (batch.groups() != nullptr) return model_.run_by_length(batch.data(), *batch.groups());
    if (batch.own_shape() != nullptr) return model_.run_in_shape(batch.data(), *batch.own_shape());
    return model_.run(batch.data());
}

// Nothing: the model refused the batch, whose items are skipped.
std::optional<OutputBatch> Inference::compute_batch(Prefetcher& input, InputBatch& batch) {
    const TraceRange range(TraceName::Compute, batch.number());
    batch.wait_ready(compute_);
    // On the CPU a model computes on this thread, not on a stream.
    if (!device_.is_gpu() && batch.ready() != nullptr) batch.ready()->wait();
    clock_.begin(compute_, batch.number());
    std::vector<DeviceTensor> native;
    try {
        native = run_model(batch);
    } catch (const RefusedInput& refused) {
        clock_.end(compute_);
        batch.release_after(compute_);  // a part of the model's work may have been submitted
        input.refuse(batch, refused.reason());
        return std::nullopt;
    } catch (const RunFailure& failure) {
        throw RunFailure(failure.cause(), input.name_of(batch) + ": " + failure.what(), {});
    }
    OutputBatch output = describe(batch);
    output.tensors = transformer_.apply(compute_, std::move(native), output.outliers);
    clock_.end(compute_);
    output.computed = events_.take();
    compute_.record(*output.computed);
    batch.release_after(compute_);
    for (std::size_t i = 0; i < output.tensors.size(); ++i) {
        const TensorSpec& made = output.tensors[i].spec;
        if (transformer_.encodes(i)) continue;  // EncodedOutputs gives it the layout
        if (i >= layout_.tensors.size() || !has_layout(made, layout_.tensors[i]))
            throw Error(ErrorKind::Internal,
                        "the model gave " + made.describe() + ", the slabs were laid out for " +
                            (i < layout_.tensors.size() ? layout_.tensors[i].describe() : "nothing"));
        if (!layout_.tensors[i].varies()) continue;
        if (made.dims == layout_.tensors[i].dims)
            cut_to_rows(output.tensors[i], layout_.tensors[i], output.rows);
        else
            cut_to_texts(output.tensors[i], layout_.tensors[i], output.rows, batch.texts());
    }
    if (!transformer_.encodes_any()) require_room(output, layout_);
    return output;
}

ComputeClock::ComputeClock(Device& device, DeviceTimeline& timeline, std::size_t depth, std::size_t every)
    : timeline_(timeline), every_(every), pairs_(depth / every) {
    for (Pair& pair : pairs_) pair = {device.make_event(Device::Timing::On), device.make_event(Device::Timing::On)};
}

void ComputeClock::begin(Stream& stream, std::uint64_t batch) {
    if (batches_ % every_ != 0) return;
    Pair& pair = pairs_[next_];
    close(pair);
    pair.batch = batch;
    pair.first = batches_;
    stream.record(*pair.begun);
}

void ComputeClock::end(Stream& stream) {
    if (batches_++ % every_ != 0) return;
    Pair& pair = pairs_[next_];
    stream.record(*pair.ended);
    pair.open = true;
    next_ = (next_ + 1) % pairs_.size();
}

void ComputeClock::settle() {
    for (Pair& pair : pairs_) close(pair);
    batches_ = 0;  // the next batch is always timed
}

ComputeTime ComputeClock::so_far() const {
    const std::lock_guard lock(mutex_);
    return so_far_;
}

void ComputeClock::close(Pair& pair) {
    if (!pair.open) return;
    pair.ended->wait();
    const std::uint64_t stands_for = std::min<std::uint64_t>(every_, batches_ - pair.first);
    {
        const double seconds = pair.ended->seconds_since(*pair.begun);
        const std::lock_guard lock(mutex_);
        so_far_.seconds += seconds * static_cast<double>(stands_for);
        so_far_.batches += stands_for;
        so_far_.times.add(static_cast<std::uint64_t>(seconds * 1e9), stands_for);
    }
    timeline_.add("compute", pair.batch, *pair.begun, *pair.ended);
    pair.open = false;
}

double measure_compute_alone(Model& model, OutputTransformer& transformer, Device& device, Stream& compute,
                             const void* input, std::uint64_t warmup, std::uint64_t batches) {
    for (std::uint64_t i = 0; i < warmup; ++i) outputs_of(model, transformer, compute, input);
    compute.synchronize();
    const auto began = device.make_event(Device::Timing::On);
    const auto ended = device.make_event(Device::Timing::On);
    compute.record(*began);
    // Bounds how far the host runs ahead: each batch in flight holds an output on the device.
    std::vector<std::unique_ptr<Event>> done;
    for (int i = 0; i < 2; ++i) done.push_back(device.make_event());
    for (std::uint64_t i = 0; i < batches; ++i) {
        if (done[i % 2]->armed()) done[i % 2]->wait();
        outputs_of(model, transformer, compute, input);
        compute.record(*done[i % 2]);
    }
    compute.record(*ended);
    ended->wait();
    return static_cast<double>(batches) / ended->seconds_since(*began);
}

double measure_copy_ceiling(Model& model, OutputTransformer& transformer, Device& device, Stream& compute,
                            const void* input, EgressRun& egress, std::uint64_t batches) {
    const SlabLayout& layout = egress.layout();
    const std::vector<DeviceTensor> outputs = outputs_of(model, transformer, compute, input);
    compute.synchronize();
    std::vector<WriteLoan> loans;
    for (std::uint32_t i = 0; i < std::clamp(egress.spans().slab_count / 2, 1U, 4U); ++i) {
        auto loan = egress.borrow_slab();
        if (!loan) return 0;
        loans.push_back(std::move(*loan));
    }
    const auto stream = device.make_stream("copy-ceiling");
    const auto began = device.make_event(Device::Timing::On);
    const auto ended = device.make_event(Device::Timing::On);
    std::uint64_t bytes = 0;
    // One block with the bytes of a batch, or of a slab.
    const auto copy_block_once = [&](const WriteLoan& loan) {
        std::size_t room = layout.varying_bytes;
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            const bool varies = layout.tensors[i].varies();
            const std::size_t size = varies ? std::min(room, outputs[i].spec.elements() * outputs[i].spec.dtype.bytes())
                                            : std::min(static_cast<std::size_t>(layout.rows),
                                                       static_cast<std::size_t>(outputs[i].spec.rows())) *
                                                  layout.tensors[i].row_bytes();
            const std::size_t at = varies ? layout.varying_offset + layout.varying_bytes - room : layout.offsets[i];
            if (varies) room -= size;
            if (size == 0) continue;
            stream->copy_to_host(loan.bytes().data() + layout.header_bytes + at,
                                 static_cast<const std::byte*>(outputs[i].data), size);
            bytes += size;
        }
    };
    const auto copy_once = [&](const WriteLoan& loan) {
        if (layout.varies()) return copy_block_once(loan);
        // As many rows of one batch as a slab takes, repeated for each batch that shares it.
        for (std::uint32_t batch = 0; batch < layout.batches; ++batch) {
            for (std::size_t i = 0; i < outputs.size(); ++i) {
                const std::int64_t rows = std::min<std::int64_t>(layout.rows / layout.batches, outputs[i].spec.rows());
                const std::size_t size = static_cast<std::size_t>(rows) * layout.tensors[i].row_bytes();
                stream->copy_to_host(loan.bytes().data() + layout.header_bytes + layout.offsets[i] + batch * size,
                                     static_cast<const std::byte*>(outputs[i].data), size);
                bytes += size;
            }
        }
    };
    copy_once(loans.front());
    bytes = 0;
    stream->record(*began);
    for (std::uint64_t i = 0; i < batches; ++i) copy_once(loans[i % loans.size()]);
    stream->record(*ended);
    ended->wait();
    return static_cast<double>(bytes) / ended->seconds_since(*began);
}

}  // namespace offramp
