#pragma once

#include <string>
#include <string_view>

// Writes the time ranges that this process has kept (common/base/trace_recording.hpp) to a file at its end, one JSON
// object a line: for pictures and tables of a run on a machine without a profiler.
//
//   {"process":"producer","pid":4711,"rung":"streams","not_kept":0}
//   {"lane":"egress-copy","name":"copy_to_cpu","batch":12,"begin_ns":1,"end_ns":2}
//   {"lane":"d2h","name":"d2h","batch":12,"begin_ns":1,"end_ns":2,"clock":"device"}
//
// "rung" is the run's strategy; the key keeps that name for who reads such files.
// Thread: start_recording() comes before other threads start; save_recording() any.
namespace offramp {

// Begins to record into FOLDER/PROCESS-PID.jsonl, written by save_recording(). Errors: none; a file that cannot be
// written is a warning then.
void start_recording(const std::string& folder, std::string_view process, std::string_view strategy);
void save_recording() noexcept;

}  // namespace offramp
