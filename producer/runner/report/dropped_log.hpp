#pragma once

#include <atomic>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>

#include "common/shm/run_files.hpp"
#include "producer/egress/row_info.hpp"

namespace offramp {

// Lists samples dropped by --when-full drop: RUN_DIR/dropped.jsonl, a line for each part of a batch, {"batch": 3,
// "samples": [{"item": 12, "key": "a.jpg"}, ...]}. Lines stay when the producer dies; the next one appends.
//
// Owns the file, which is created with the first line. Thread: note() one; failed() any. Blocks: on the file system.
// Errors: a line that cannot be written is logged once and counted; the run continues, and its summary has the number
// of samples.
class DroppedLog {
  public:
    explicit DroppedLog(const std::string& run_dir) : path_(run_dir + "/" + run_files::kDropped) {}

    void note(std::uint64_t batch, std::span<const RowInfo> rows);
    // Lines that could not be written.
    std::uint64_t failed() const { return failed_; }
    const std::string& path() const { return path_; }

  private:
    std::string path_;
    std::ofstream file_;
    bool told_ = false;
    std::atomic<std::uint64_t> failed_{0};
};

}  // namespace offramp
