#pragma once

#include <deque>
#include <optional>
#include <string>

#include "common/settings/exit_code.hpp"
#include "producer/runner/report/run_stats.hpp"

namespace offramp {

// Turns a run's stats into what people and the launch script read: RUN_DIR/status.json twice a second, and
// RUN_DIR/producer-summary.json at the end. Both appear by rename. Thread: one. Errors: a file that cannot be written
// is logged; a report must not end a run.
class RunReport {
  public:
    // Work begins now: the first status, which may be the last one, too, is about what was done since.
    RunReport(std::string run_dir, RunFacts facts);

    void write_status(const RunStats& stats);
    // `exit`: what the producer is about to end with; nothing when an error ends it. Who finds it knows that the run
    // was over, whatever becomes of the process afterwards.
    void write_summary(const RunStats& stats, std::optional<ExitCode> exit);

    static std::string status_json(const RunFacts& facts, const RunStats& before, const RunStats& now);
    static std::string summary_json(const RunFacts& facts, const RunStats& stats, std::optional<ExitCode> exit);
    // The stage that holds the rest back, from what changed between two moments.
    static std::string limiting_stage(const RunFacts& facts, const RunStats& before, const RunStats& now);

  private:
    std::string run_dir_;
    RunFacts facts_;
    std::deque<RunStats> earlier_;  // moments of the last seconds, the oldest first
};

}  // namespace offramp
