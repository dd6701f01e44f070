#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

// Keeps time ranges of this process in memory, for whoever draws pictures and tables of a run without a profiler
// (common/program/trace_file.hpp). Process-wide, as NVTX is, which marks the same places (trace.hpp). Off until
// keep_ranges(); then a range costs a lock and a few words of memory.
//
// Times are CLOCK_MONOTONIC in nanoseconds. A lane is a thread by its name, or a queue of the device.
// Thread: any, but keep_ranges(), which comes before other threads start.
namespace offramp {

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

// `main_lane`: what the main thread is called.
void keep_ranges(std::string_view main_lane);
bool recording() noexcept;
// Ends it. Nothing while it is off.
std::optional<RecordedRanges> take_ranges();

// `name` outlives the process's work (a literal). What was recorded beyond some millions of ranges is counted, not
// kept.
void record_range(const char* name, std::uint64_t batch, std::uint64_t begin_ns, std::uint64_t end_ns) noexcept;
void record_device_range(const char* lane, std::uint64_t batch, std::uint64_t begin_ns, std::uint64_t end_ns) noexcept;

// What record_range() calls the calling thread; name_this_thread() sets it.
void set_recording_lane(const char* lane) noexcept;

}  // namespace offramp
