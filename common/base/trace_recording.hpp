#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Keeps time ranges of this process in memory and writes them to a file at its end, one JSON object a line: for
// pictures and tables of a run on a machine without a profiler. Process-wide, as NVTX is, which marks the same places
// (trace.hpp). Off until start_recording(); then a range costs a lock and a few words of memory.
//
//   {"process":"producer","pid":4711,"rung":"streams","not_kept":0}
//   {"lane":"egress-copy","name":"copy_to_cpu","batch":12,"begin_ns":1,"end_ns":2}
//   {"lane":"d2h","name":"d2h","batch":12,"begin_ns":1,"end_ns":2,"clock":"device"}
//
// Times are CLOCK_MONOTONIC in nanoseconds. A lane is a thread by its name, or a queue of the device.
// Thread: any, but start_recording(), which comes before other threads start.
namespace offramp {

// Begins to record into FOLDER/PROCESS-PID.jsonl, written by save_recording(). Errors: none; a file that cannot be
// written is a warning then.
void start_recording(const std::string& folder, std::string_view process, std::string_view rung);
bool recording() noexcept;
void save_recording() noexcept;

// `name` outlives the process's work (a literal). What was recorded beyond some millions of ranges is counted, not
// kept.
void record_range(const char* name, std::uint64_t batch, std::uint64_t begin_ns, std::uint64_t end_ns) noexcept;
void record_device_range(const char* lane, std::uint64_t batch, std::uint64_t begin_ns, std::uint64_t end_ns) noexcept;

// What record_range() calls the calling thread; name_this_thread() sets it.
void set_recording_lane(const char* lane) noexcept;

}  // namespace offramp
