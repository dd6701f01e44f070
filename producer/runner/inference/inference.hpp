#pragma once

#include <cstdint>
#include <optional>

#include "common/base/blocked_time.hpp"
#include "common/wire/slab_layout.hpp"
#include "producer/device/device.hpp"
#include "producer/device/device_timeline.hpp"
#include "producer/device/lending_pool.hpp"
#include "producer/runner/inference/compute_clock.hpp"
#include "producer/runner/inference/run_outputs.hpp"
#include "producer/runner/ingest/prefetcher.hpp"
#include "producer/runner/models/model.hpp"
#include "producer/runner/transforms/output_transformer.hpp"

namespace offramp {

// Runs model and transform on every batch of input and submits the outputs to the egress. Waits for the device only to
// bound the work in flight. Borrows all of its parts. Thread: run() on the model's thread; the stats from any. Blocks:
// run() to the end of the input. Errors: the model's, the prefetcher's and the egress's.
class Inference {
  public:
    // `depth`: batches that may be submitted and unfinished; `timed`: every n-th is timed on the device.
    struct Pace {
        std::size_t depth = 3;
        std::size_t timed = 1;
    };
    // How to handle a batch without readable items. It is not computed either way.
    enum class Unread { Skip, EmitEmpty };  // EmitEmpty: its rows go to the egress, as empty ones
    Inference(Device& device, Model& model, OutputTransformer& transformer, Stream& compute, DeviceTimeline& timeline,
              const SlabLayout& layout, Pace pace, Unread unread = Unread::Skip, RowReview* review = nullptr);

    // Runs at most `batches` batches, excluding those without readable items. False when the input has ended, or the
    // egress takes no more. Their device time is known on return.
    bool run(Prefetcher& input, RunOutputs& outputs, std::uint64_t batches = kAllBatches);
    static constexpr std::uint64_t kAllBatches = ~std::uint64_t{0};

    ComputeTime computed() const { return clock_.so_far(); }
    double output_wait_seconds() const { return static_cast<double>(output_wait_ns_) / 1e9; }

  private:
    std::optional<InputBatch> get_batch(Prefetcher& input);
    OutputBatch describe(const InputBatch& input);
    OutputBatch compute_batch(InputBatch input);
    bool submit(OutputBatch output, RunOutputs& outputs);

    Device& device_;
    Model& model_;
    OutputTransformer& transformer_;
    Stream& compute_;
    const SlabLayout& layout_;
    const Unread unread_;
    RowReview* const review_;           // reviews the outputs, if they need it
    std::uint32_t skipped_before_ = 0;  // since the last batch that was computed
    ComputeClock clock_;
    LendingPool<Event> events_;
    std::atomic<std::uint64_t> output_wait_ns_{0};
};

}  // namespace offramp
