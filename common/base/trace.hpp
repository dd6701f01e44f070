#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

namespace offramp {

// NVTX ranges in the project's own domain "offramp". Names are registered once, so that capture ranges can match them;
// without a profiler attached a range costs a few nanoseconds. Names and colours down to ProcessOutput are those of the
// article "Optimizing Data Transfer in Batched AI/ML Inference Workloads" (2026). The same ranges can be recorded
// without a profiler: see RecordedRange.
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

// Keeps time ranges of this process in memory, to draw pictures and tables of a run without a profiler
// (common/tracing). Process-wide, as NVTX is, which marks the same places. Off until keep_ranges(), and
// after take_ranges(): then a place costs one relaxed load; while it is on, a lock and a few words of memory, or, where
// nothing more is kept, a few loads.
//
// A forked child begins with nothing kept, and off. What is kept outlives objects of static life.
//
// Times are CLOCK_MONOTONIC in nanoseconds. A lane is a thread by its name, or a queue of the device.
// Thread: any.
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

// Ranges that touch this time. Of more than `most` of them those that come later are counted, not kept.
struct RangesWanted {
    std::size_t most = kMostRanges;
    std::uint64_t from_ns = 0, until_ns = std::numeric_limits<std::uint64_t>::max();
};

// Begins. False, and nothing changes, if it is on already. `main_lane`: what the main thread
// is called. Errors: SystemError when the fork handler cannot be installed.
bool keep_ranges(std::string_view main_lane, const RangesWanted& wanted = {});
bool recording() noexcept;
// Ends it. Nothing while it is off.
std::optional<RecordedRanges> take_ranges();

// Nothing while it is off. `name` outlives the process's work (a literal).
void record_range(const char* name, std::uint64_t batch, std::uint64_t begin_ns, std::uint64_t end_ns) noexcept;
void record_device_range(const char* lane, std::uint64_t batch, std::uint64_t begin_ns, std::uint64_t end_ns) noexcept;

// The calling thread's name in record_range(), set by name_this_thread(); by default the kernel's.
void set_recording_lane(const char* lane) noexcept;

}  // namespace offramp
