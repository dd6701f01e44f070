#pragma once

#include <atomic>
#include <cstdint>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/app/settings/exit_code.hpp"
#include "common/base/duration_histogram.hpp"
#include "common/base/items.hpp"
#include "common/shm/run_files.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/device/device.hpp"
#include "producer/egress/output_batch.hpp"
#include "producer/runner/ingest/skipped_items.hpp"
#include "producer/runner/models/run_failure.hpp"
#include "producer/status/status_page.hpp"

namespace offramp {

// Facts fixed once the parts are built.
struct RunFacts {
    std::string run_id;
    DeviceInfo device;
    std::string model;  // descriptions, for people
    std::string source;
    // settings, resolved
    std::string precision;
    std::string memory_format;
    std::string transform;
    std::uint32_t batch = 0;
    std::string egress;  // EgressTraits::name
    bool random_weights = false;
    std::uint64_t items = 0;        // of the source
    std::uint64_t done_before = 0;  // of those: by earlier runs that this one continues
    std::uint64_t slab_payload_bytes = 0;
    std::uint64_t samples_per_slab = 0;
    std::uint32_t batches_per_slab = 1;
    std::uint64_t shm_bytes = 0;  // EgressRun::shm_bytes()
    std::uint64_t began_ns = 0;   // CLOCK_MONOTONIC at the start of the run's first producer
    std::uint64_t producers = 1;  // that have served the run, including this one
};

// The rates that delivery is compared with; 0 if not measured.
struct Limits {
    double compute_batches_per_second = 0;
    double copy_bytes_per_second = 0;
};

// The cost of the measured batches: those after a warm-up that was delivered entirely before they started.
struct MeasuredStats {
    std::uint64_t at_ns = 0;
    std::uint64_t batches = 0;  // delivered
    std::uint64_t copy_bytes = 0;
    double compute_seconds = 0, copy_seconds = 0, h2d_seconds = 0;  // device time
    double producer_cpu_seconds = 0;
};

// A run at one moment.
struct RunStats {
    std::string state = "starting";  // starting, running, draining, ended, failed
    BrokerReport broker;
    std::uint64_t sourced = 0;               // items taken from the source
    std::uint64_t skipped = 0;               // of them
    SlabTotals dropped;                      // read, but not for consumers: the run was stopped, or no slab was free
    SlabTotals dropped_when_full;            // of them: no slab was free
    std::vector<SkippedItem> skipped_items;  // the first of them
    std::vector<SkippedItem> unreadable_upcoming;  // further ones: their batches remain to be done
    std::vector<LeftOut> left_out;                 // of the input
    double compute_busy_seconds = 0;               // device time
    std::uint64_t compute_busy_batches = 0;        // batches covered by it: the last few batches are not known yet
    DurationHistogram compute_times;               // one entry per batch
    double copy_seconds = 0;                       // of the copy engine
    DurationHistogram copy_times;                  // one entry per copy
    double input_wait_seconds = 0;                 // the model waited for input
    double slab_wait_seconds = 0;                  // the egress waited for a free slab
    double output_wait_seconds = 0;                // the model waited for the egress to take its output
    double turn_wait_seconds = 0;                  // another program computed on the same device
    bool waits_for_turn = false;                   // at this moment
    double seconds_to_first_slab = 0;
    double seconds_to_all_slabs = 0;
    MeasuredStats measured_from;  // at_ns 0: the warm-up was not drained
    MeasuredStats so_far;
    PinningProof pinning;
    Limits limits;
    std::uint64_t tokens = 0;                   // of texts, given to the model
    std::uint64_t padded_tokens = 0;            // including padding; 0: the source gives no texts
    std::uint64_t decoded_on_gpu = 0;           // pictures
    std::string failure;                        // empty: none
    std::optional<FailureCause> failure_cause;  // of `failure`, if it is known
    std::uint64_t at_ns = 0;

    // `sourced`, when no item is on its way to a slab. Slabs that were dropped while they waited count as published.
    std::uint64_t accounted() const {
        return skipped + dropped.samples - broker.dropped.samples + broker.published.samples;
    }
};

// Turns a run's stats into pages for people and the launch script: RUN_DIR/status.json twice a second, and
// RUN_DIR/summary.json at the end. Both appear by rename. Thread: one. Errors: a file that cannot be written
// is logged; a report must not end a run.
class RunReport {
  public:
    // Work begins now: the first status, possibly also the last, covers the time since.
    RunReport(std::string run_dir, RunFacts facts);

    void write_status(const RunStats& stats);
    // `exit`: the exit code of the producer; nothing when an error ends it. A reader of the page knows that the run is
    // over, whatever happens to the process afterwards.
    void write_summary(const RunStats& stats, std::optional<ExitCode> exit);

    static std::string status_json(const RunFacts& facts, const RunStats& before, const RunStats& now);
    static std::string summary_json(const RunFacts& facts, const RunStats& stats, std::optional<ExitCode> exit);
    // The stage that limits the others, from the changes between two moments.
    static std::string limiting_stage(const RunFacts& facts, const RunStats& before, const RunStats& now);

  private:
    std::string run_dir_;
    RunFacts facts_;
    RecentMoments<RunStats> recent_;
};

// Lists samples dropped by --when-full drop or drop-oldest: RUN_DIR/dropped.jsonl, a line for each part of a batch,
// {"batch": 3, "samples": [{"item": 12, "key": "a.jpg"}, ...]}; with groups, also {"group": the one that lost it}.
// Lines stay when the producer dies; the next one appends.
//
// Owns the file, which is created with the first line. Thread: note() one; failed() any. Blocks: on the file system.
// Errors: a line that cannot be written is logged once and counted; the run continues, and its summary has the number
// of samples.
class DroppedLog {
  public:
    explicit DroppedLog(const std::string& run_dir) : path_(run_dir + "/" + run_files::kDropped) {}

    // `group`: empty in a run without groups.
    void note(std::uint64_t batch, std::span<const RowInfo> rows, const std::string& group);
    // Lines that could not be written.
    std::uint64_t failed() const { return failed_; }
    const std::string& path() const { return path_; }

  private:
    std::string path_;
    std::ofstream file_;
    bool warned_ = false;
    std::atomic<std::uint64_t> failed_{0};
};

}  // namespace offramp
