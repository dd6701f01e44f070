#include "producer/runner/inference/inference.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/clock.hpp"
#include "common/base/error.hpp"
#include "common/base/trace.hpp"
#include "common/wire/settled_strides.hpp"

namespace offramp {
namespace {

std::uint32_t skipped_in(const InputBatch& batch) {
    return static_cast<std::uint32_t>(
        std::ranges::count_if(batch.rows(), [](const RowInfo& row) { return row.empty && !row.done; }));
}

}  // namespace

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
        if (!batch->left_out()) {
            --batches;
            if (!submit(compute_batch(std::move(*batch)), outputs)) return false;
        } else if (unread_ == Unread::EmitEmpty) {
            if (!submit(describe(*batch), outputs)) return false;
        } else {
            skipped_before_ += skipped_in(*batch);
        }
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

OutputBatch Inference::compute_batch(InputBatch input) {
    const TraceRange range(TraceName::Compute, input.number());
    input.wait_ready(compute_);
    // On the CPU a model computes on this thread, not on a stream.
    if (!device_.is_gpu() && input.ready() != nullptr) input.ready()->wait();
    OutputBatch output = describe(input);
    clock_.begin(compute_, input.number());
    model_.begin_batch(input.number());
    const LengthGroups* const groups = input.groups();
    output.tensors = transformer_.apply(
        compute_, groups != nullptr ? model_.run_by_length(input.data(), *groups) : model_.run(input.data()),
        output.outliers);
    clock_.end(compute_);
    output.computed = events_.take();
    compute_.record(*output.computed);
    input.release_after(compute_);
    for (std::size_t i = 0; i < output.tensors.size(); ++i) {
        const TensorSpec& made = output.tensors[i].spec;
        if (i >= layout_.tensors.size() || with_settled_strides(made.with_rows(layout_.rows)) != layout_.tensors[i])
            throw Error(ErrorKind::Internal,
                        "the model gave " + made.describe() + ", the slabs were laid out for " +
                            (i < layout_.tensors.size() ? layout_.tensors[i].describe() : "nothing"));
    }
    return output;
}

}  // namespace offramp
