#pragma once

#include <string>
#include <string_view>

// Records the time ranges of a whole process, from its start to its end (--trace-dir).
// Thread: start_recording() comes before other threads start; save_recording() any.
namespace offramp {

// Begins to record into FOLDER/PROCESS-PID.jsonl (common/tracing/range_file.hpp), written by save_recording(). Errors:
// none; a file that cannot be written is a warning then.
void start_recording(const std::string& folder, std::string_view process, std::string_view strategy);
// Nothing where it was not begun.
void save_recording() noexcept;

}  // namespace offramp
