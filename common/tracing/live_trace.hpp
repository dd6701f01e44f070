#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>

#include "common/base/clock.hpp"
#include "common/base/trace.hpp"

namespace offramp {

// Records time ranges of this process while a run goes on, when its directory asks for it, and goes on as if nothing
// had been:
//
//   RUN_DIR/live/trace-request.json          {"id": "20261126-101500-1f", "from_ns": 1, "until_ns": 2}, put there by
//                                            rename; times of CLOCK_MONOTONIC
//   RUN_DIR/logs/trace-ID/PROCESS-PID.jsonl  the ranges that touch that time (RangeFile, below), in a folder made
//                                            by the requester
//
// A request that is over when it is seen, or ends five minutes later, that is not of this form, or that comes while
// this process records already (--trace-dir, or another one of these), is none. One that comes while the last answer is
// still being written waits for that. Nothing is written elsewhere.
//
// Owns: the recording that it has begun; while it writes, a thread. Thread: one at a time. Blocks: end() and the
// destructor, on the disk; look() never does. Errors: none; obstacles are logged, and the run continues.
class LiveTrace {
  public:
    // At most this often it looks: a stat().
    static constexpr std::chrono::milliseconds kLookEvery{250};
    // Limit per process; later ranges are counted, not kept.
    static constexpr std::size_t kMostRangesKept = std::size_t{1} << 18;

    // `main_lane`: what the main thread is called. `on_begin`: called where a recording has begun, on look()'s thread.
    LiveTrace(std::string run_dir, std::string process, std::string main_lane, std::function<void()> on_begin = {});
    ~LiveTrace() { end(); }
    LiveTrace(const LiveTrace&) = delete;
    LiveTrace& operator=(const LiveTrace&) = delete;

    // Call it now and then: between slabs, while it waits.
    void look(TimePoint now);
    // The process leaves the run: writes the recording so far.
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
    std::int64_t seen_at_ns_ = 0;  // when the file was last changed that was seen
    std::optional<Request> under_way_;
    std::future<void> writing_;  // last: it is waited for first
};

// Time ranges of a process as a file, one JSON object a line:
//
//   {"process":"producer","pid":4711,"strategy":"streams","not_kept":0}
//   {"lane":"egress-copy","name":"copy_to_cpu","batch":12,"begin_ns":1,"end_ns":2}
//   {"lane":"d2h","name":"d2h","batch":12,"begin_ns":1,"end_ns":2,"clock":"device"}
//
// "strategy" is the run's egress strategy, where it is known.
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
