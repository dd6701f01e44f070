#pragma once

#include <cstdint>
#include <string_view>

namespace offramp {

// NVTX ranges in the project's own domain "offramp". Names are registered once, so that capture ranges can match them;
// without a profiler attached a range costs a few nanoseconds. Names and colours down to ProcessOutput are those of the
// article "Optimizing Data Transfer in Batched AI/ML Inference Workloads" (2026). The same ranges can be recorded
// without a profiler: trace_recording.hpp.
//
//   the model's thread   Batch i ─┬─ get batch    what the loop waits for its input
//                                 ├─ compute
//                                 ├─ copy to CPU (queue CUDA event)    by its own thread, with a stream for copies
//                                 └─ queue output; without consumers process output
enum class TraceName {
    Batch,           // blue; carries the batch's number as text "Batch i"; a whole step of the model's loop
    GetBatch,        // red
    Compute,         // green
    CopyToCpu,       // yellow
    QueueCudaEvent,  // cyan
    QueueOutput,     // cyan; the hand-over of the output
    ProcessOutput,   // cyan
    Capture,         // the batches that a profiler is to record
    Decode,          // one row, by a decode worker
    StageBatch,      // a batch on its way to the device, by the thread that uploads: ahead of the model
    H2d,             // finer ones, nested inside
    WaitSlab,
    Publish,
    Map,
    Unmap,
};

// Opens a range on the calling thread and closes it at the end of the scope.
class TraceRange {
  public:
    explicit TraceRange(TraceName name) noexcept;
    TraceRange(TraceName name, std::uint64_t batch) noexcept;  // payload: the batch's number
    ~TraceRange();
    TraceRange(const TraceRange&) = delete;
    TraceRange& operator=(const TraceRange&) = delete;

  private:
    TraceName name_;
    std::uint64_t batch_ = 0;
    std::uint64_t began_ns_ = 0;  // 0: not recorded
};

// Gives the calling thread its name, for profilers and for ps -L. At most 15 characters are kept by the kernel.
void name_this_thread(const char* name) noexcept;

}  // namespace offramp
