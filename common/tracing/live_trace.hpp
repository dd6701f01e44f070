#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>

#include "common/base/clock.hpp"

namespace offramp {

// Records time ranges of this process when the run directory contains a request. The run continues unaffected:
//
//   RUN_DIR/live/trace-request.json          {"id": "20261126-101500-1f", "from_ns": 1, "until_ns": 2}, put there by
//                                            rename; times of CLOCK_MONOTONIC
//   RUN_DIR/logs/trace-ID/PROCESS-PID.jsonl  the ranges that touch that time (range_file.hpp), in a folder made
//                                            by the requester
//
// Ignores a request that is already over, ends more than five minutes later, is malformed, or arrives while this
// process already records (--trace-dir, or another request). A request that arrives while the last answer is being
// written waits. Nothing is written elsewhere.
//
// Owns: the recording that it has started, and a thread while it writes. Thread: one at a time. Blocks: end() and the
// destructor, on the disk; look() never blocks. Errors: none; problems are logged, and the run continues.
class LiveTrace {
  public:
    // The interval between checks, each of which is a stat().
    static constexpr std::chrono::milliseconds kLookEvery{250};
    // The limit per process; later ranges are counted, not kept.
    static constexpr std::size_t kMostRangesKept = std::size_t{1} << 18;

    // `main_lane`: the main thread's name. `on_begin`: called when a recording has started, on look()'s thread.
    LiveTrace(std::string run_dir, std::string process, std::string main_lane, std::function<void()> on_begin = {});
    ~LiveTrace() { end(); }
    LiveTrace(const LiveTrace&) = delete;
    LiveTrace& operator=(const LiveTrace&) = delete;

    // Call it regularly: between slabs, and while waiting.
    void look(TimePoint now);
    // Writes the recording so far. Call it when the process leaves the run.
    void end() noexcept;

  private:
    struct Request {
        std::string id;
        std::uint64_t from_ns = 0, until_ns = 0;
    };
    std::optional<Request> asked();
    void begin(const Request& request);
    void stop();
    bool is_writing() const;

    const std::string run_dir_, process_, main_lane_, request_path_;
    const std::function<void()> on_begin_;
    TimePoint next_look_{};
    std::uint64_t seen_inode_ = 0;
    std::int64_t seen_at_ns_ = 0;  // modification time of the last seen file
    std::optional<Request> under_way_;
    std::future<void> writing_;  // last member: destroyed (and waited for) first
};

}  // namespace offramp
