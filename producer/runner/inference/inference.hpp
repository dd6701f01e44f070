#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "common/base/duration_histogram.hpp"
#include "common/wire/slab_layout.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/device/device.hpp"
#include "producer/device/device_timeline.hpp"
#include "producer/device/lending_pool.hpp"
#include "producer/egress/egress_run.hpp"
#include "producer/egress/output_batch.hpp"
#include "producer/egress/output_counters.hpp"
#include "producer/runner/ingest/prefetcher.hpp"
#include "producer/runner/models/model.hpp"
#include "producer/runner/transforms/output_transformer.hpp"

namespace offramp {

// Where a run's outputs go, and what became of them. Thread: submit() and finish() from the model's; the others from
// any. Blocks: submit() for back-pressure; finish() until everything is published; join() until nothing is in flight.
// Errors: a failure is thrown by the next submit(), or by finish() or join().
class RunOutputs {
  public:
    virtual ~RunOutputs() = default;
    // False after stop(): the batch was not taken.
    virtual bool submit(OutputBatch batch) = 0;
    virtual void finish() = 0;
    // Abandons batches whose copies have not begun.
    virtual void stop() = 0;
    virtual OutputStats stats() const = 0;
    // At most some 100 ms old.
    virtual BrokerReport report() const = 0;
    // Orders consumers to leave.
    virtual void abort() = 0;
    virtual void join() = 0;
};

struct ComputeTime {
    double seconds = 0;         // device time
    std::uint64_t batches = 0;  // batches covered by it
    DurationHistogram times;    // one entry per batch
};

// Adds up a stream's time on batches, from pairs of events on the device. Of small batches only every n-th is timed,
// and represents those up to the next one. Borrows: device, timeline. Thread: begin() and end() from the stream's;
// so_far() from any. Blocks: begin() while a timed batch `depth` batches ago is unfinished; this also bounds how far
// the host runs ahead of the device.
class ComputeClock {
  public:
    // `depth` is a multiple of `every`.
    ComputeClock(Device& device, DeviceTimeline& timeline, std::size_t depth, std::size_t every);

    void begin(Stream& stream, std::uint64_t batch);
    void end(Stream& stream);
    // Waits for all batches begun, so that so_far() includes them.
    void settle();
    ComputeTime so_far() const;

  private:
    struct Pair {
        std::unique_ptr<Event> begun, ended;
        std::uint64_t batch = 0;
        std::uint64_t first = 0;  // batches_ at its beginning
        bool open = false;
    };
    void close(Pair& pair);

    DeviceTimeline& timeline_;
    const std::size_t every_;
    std::vector<Pair> pairs_;
    std::size_t next_ = 0;
    std::uint64_t batches_ = 0;  // since the start, or since the last settle()
    mutable std::mutex mutex_;   // guards so_far_
    ComputeTime so_far_;
};

// Makes each row's own tokens the samples of an output with a row for each token, `wanted` as the slabs were laid out.
// Empty rows have none.
void cut_to_texts(DeviceTensor& tensor, const TensorSpec& wanted, std::span<const RowInfo> rows,
                  std::span<const TokenRows> texts);

// Checks that each sample fits into a slab. Errors: RunFailure (BadInput) names the item.
void require_room(const OutputBatch& output, const SlabLayout& layout);

// Makes each row of an output, of which batches differ in shape, a sample of the batch's shape. Empty rows have
// nothing.
void cut_to_rows(DeviceTensor& tensor, const TensorSpec& wanted, std::span<const RowInfo> rows);

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

    // Runs at most `batches` batches, excluding those without readable items. The items of a batch that the model
    // refuses are skipped. False when the input has ended, or the egress takes no more. Their device time is known on
    // return.
    bool run(Prefetcher& input, RunOutputs& outputs, std::uint64_t batches = kAllBatches);
    static constexpr std::uint64_t kAllBatches = ~std::uint64_t{0};

    ComputeTime computed() const { return clock_.so_far(); }
    double output_wait_seconds() const { return static_cast<double>(output_wait_ns_) / 1e9; }

  private:
    std::optional<InputBatch> get_batch(Prefetcher& input);
    OutputBatch describe(const InputBatch& input);
    std::vector<DeviceTensor> run_model(const InputBatch& batch);
    std::optional<OutputBatch> compute_batch(Prefetcher& input, InputBatch& batch);
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

// The two rates that delivery is compared with, measured in the run, with its model, buffers and slabs.

// Batches per second of model and transform alone: the same input each time, outputs dropped on the device, after
// `warmup` batches. Returns with the device idle. Thread: the inference thread.
double measure_compute_alone(Model& model, OutputTransformer& transformer, Device& device, Stream& compute,
                             const void* input, std::uint64_t warmup, std::uint64_t batches);

// Bytes per second of bare copies, back to back, from one batch's outputs into the run's slabs, by the device's clock.
// Borrows up to four slabs of the pool meanwhile. 0 when the run was stopped.
double measure_copy_ceiling(Model& model, OutputTransformer& transformer, Device& device, Stream& compute,
                            const void* input, EgressRun& egress, std::uint64_t batches);

}  // namespace offramp
