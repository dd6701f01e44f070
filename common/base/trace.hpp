#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

namespace offramp {

// NVTX ranges in the domain "offramp". Names are registered once, so that capture ranges can match them. Without a
// profiler, a range costs a few nanoseconds. Names and colours down to ProcessOutput follow the article "Optimizing
// Data Transfer in Batched AI/ML Inference Workloads" (2026). The same ranges can be recorded without a profiler: see
// keep_ranges().
//
//   the model's thread   Batch i ─┬─ get batch    what the loop waits for its input
//                                 ├─ compute
//                                 ├─ copy to CPU (queue CUDA event)    by its own thread, with a stream for copies
//                                 └─ queue output; without consumers process output
enum class TraceName {
    Batch,           // blue; has the text "Batch i"; a whole step of the model's loop
    GetBatch,        // red
    Compute,         // green
    CopyToCpu,       // yellow
    QueueCudaEvent,  // cyan
    QueueOutput,     // cyan; the hand-over of the output
    ProcessOutput,   // cyan
    Capture,         // the batches that a profiler records
    Decode,          // one row, in a decode worker
    StageBatch,      // the upload of a batch to the device, in the upload thread, ahead of the model
    H2d,             // finer ranges, nested inside
    WaitSlab,
    Publish,
    Map,
    Unmap,
};

// Opens a range on the calling thread and closes it at the end of the scope.
class TraceRange {
  public:
    explicit TraceRange(TraceName name) noexcept;
    TraceRange(TraceName name, std::uint64_t batch) noexcept;  // the batch's number is the payload
    ~TraceRange();
    TraceRange(const TraceRange&) = delete;
    TraceRange& operator=(const TraceRange&) = delete;

  private:
    TraceName name_;
    std::uint64_t batch_ = 0;
    std::uint64_t began_ns_ = 0;  // 0: not recorded
};

// Names the calling thread, for profilers and for ps -L. The kernel keeps at most 15 characters.
void name_this_thread(const char* name) noexcept;

// A time range as recorded: times are CLOCK_MONOTONIC in nanoseconds, and the lane is a thread's name, or a queue of
// the device.
struct RecordedRange {
    std::array<char, 16> lane;
    const char* name;
    std::uint64_t batch, begin_ns, end_ns;
    bool on_device;
};

struct RecordedRanges {
    std::vector<RecordedRange> ranges;
    std::uint64_t not_kept = 0;
};

inline constexpr std::size_t kMostRanges = std::size_t{4} << 20;  // 230 MB

// Selects ranges that overlap this time. Ranges after the first `most` are counted, not kept.
struct RangesWanted {
    std::size_t most = kMostRanges;
    std::uint64_t from_ns = 0, until_ns = std::numeric_limits<std::uint64_t>::max();
};

// Records this process's time ranges in memory until take_ranges(), for pictures and tables of a run without a profiler
// (common/tracing). The recording is process-wide, like NVTX, and marks the same places. While it is off, a range costs
// one relaxed load. While it is on, a range costs a lock and a few words of memory, or a few loads once the recording
// is full. A forked child begins with an empty recording, switched off. The recording outlives static objects.
//
// Returns false, and changes nothing, if it is already on. `main_lane`: the main thread's name. Thread: any. Errors:
// SystemError if the fork handler cannot be installed.
bool keep_ranges(std::string_view main_lane, const RangesWanted& wanted = {});
bool recording() noexcept;
// Switches recording off and returns the ranges; nothing if it is off.
std::optional<RecordedRanges> take_ranges();

// Does nothing while recording is off. `name` must be a literal.
void record_range(const char* name, std::uint64_t batch, std::uint64_t begin_ns, std::uint64_t end_ns) noexcept;
void record_device_range(const char* lane, std::uint64_t batch, std::uint64_t begin_ns, std::uint64_t end_ns) noexcept;

// Sets the calling thread's name for record_range(). name_this_thread() calls it; the default is the kernel's name.
void set_recording_lane(const char* lane) noexcept;

}  // namespace offramp
