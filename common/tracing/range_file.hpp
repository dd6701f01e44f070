#pragma once

#include <string>

#include "common/base/trace_recording.hpp"

// Time ranges of a process as a file, one JSON object a line:
//
//   {"process":"producer","pid":4711,"strategy":"streams","not_kept":0}
//   {"lane":"egress-copy","name":"copy_to_cpu","batch":12,"begin_ns":1,"end_ns":2}
//   {"lane":"d2h","name":"d2h","batch":12,"begin_ns":1,"end_ns":2,"clock":"device"}
//
// "strategy" is the run's egress strategy, where it is known.
namespace offramp {

struct RangeFile {
    std::string folder;
    std::string process;   // "producer", "consumer"
    std::string strategy;  // empty: unknown
    // FOLDER/PROCESS-PID.jsonl of the calling process
    std::string path() const;
};

// Writes it, whole or not at all. Blocks: on the disk. Errors: SystemError.
void write_range_file(const RangeFile& to, const RecordedRanges& kept);

}  // namespace offramp
