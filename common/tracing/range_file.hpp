#pragma once

#include <string>
#include <string_view>

#include "common/base/trace.hpp"

namespace offramp {

// A file with a process's time ranges, one JSON object per line:
//
//   {"process":"producer","pid":4711,"strategy":"streams","not_kept":0}
//   {"lane":"egress-copy","name":"copy_to_cpu","batch":12,"begin_ns":1,"end_ns":2}
//   {"lane":"d2h","name":"d2h","batch":12,"begin_ns":1,"end_ns":2,"clock":"device"}
//
// "strategy" is the run's egress strategy, if known.
struct RangeFile {
    std::string folder;
    std::string process;   // "producer", "consumer"
    std::string strategy;  // empty: unknown
    // FOLDER/PROCESS-PID.jsonl of the calling process
    std::string path() const;
};

// Writes the file as a whole or not at all. Blocks: on the disk. Errors: SystemError.
void write_range_file(const RangeFile& to, const RecordedRanges& kept);

// Records the time ranges of a whole process (--trace-dir). save_recording() writes them to FOLDER/PROCESS-PID.jsonl.
// Thread: before other threads start. Errors: none.
void start_recording(const std::string& folder, std::string_view process, std::string_view strategy);
// Does nothing without start_recording(). Thread: any. Errors: none; a file that cannot be written is a warning.
void save_recording() noexcept;

}  // namespace offramp
