#pragma once

#include <deque>
#include <optional>
#include <string>

#include "common/app/settings/exit_code.hpp"
#include "producer/runner/report/run_stats.hpp"

namespace offramp {

// Turns a run's stats into pages for people and the launch script: RUN_DIR/status.json twice a second, and
// RUN_DIR/producer-summary.json at the end. Both appear by rename. Thread: one. Errors: a file that cannot be written
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
    std::deque<RunStats> earlier_;  // the last seconds, oldest first
};

}  // namespace offramp
