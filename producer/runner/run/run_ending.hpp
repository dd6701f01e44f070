#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "common/app/program/own_process.hpp"
#include "common/app/settings/exit_code.hpp"
#include "common/base/unique_fd.hpp"
#include "producer/egress/run_lifecycle.hpp"
#include "producer/runner/report/run_report.hpp"

namespace offramp {

// A run's reaction to the loss of its launcher: no process is left to start another consumer, or the successor of a
// dead producer.
//
// Owns: the record of that loss. Borrows: the lifecycle. Thread: any. Blocks: never. Errors: none.
class LauncherLoss {
  public:
    explicit LauncherLoss(RunLifecycle& lifecycle) : lifecycle_(lifecycle) {}

    // Drains the run.
    void launcher_gone();
    // Without a launcher and consumers, slabs in flight can never be taken: abandons the run.
    void no_consumers();
    // True if another producer may continue the run after this one's death.
    bool may_be_succeeded() const;

  private:
    RunLifecycle& lifecycle_;
    std::atomic<bool> gone_{false};
};

// Waits, on its own thread, for outside reasons to end a run: SIGINT and SIGTERM (the first drains, the second
// abandons), and the end of the launcher's lifeline. Also updates the status file regularly. Borrows: signals,
// lifecycle, launcher's loss. Thread: the constructor's. Blocks: the destructor, shortly. Errors: SystemError from the
// constructor; errors of the beat are logged.
class EndWatch {
  public:
    struct Beat {
        std::function<void()> work;  // called on the watch's thread
        std::chrono::milliseconds interval{500};
        std::function<void()> look;  // further checks on this thread, twice a second
    };
    // `lifeline_fd`: -1 for none.
    EndWatch(const EndSignals& signals, int lifeline_fd, RunLifecycle& lifecycle, LauncherLoss& launcher, Beat beat);
    ~EndWatch();
    EndWatch(const EndWatch&) = delete;
    EndWatch& operator=(const EndWatch&) = delete;

  private:
    void watch(int signals_fd, int lifeline_fd);

    RunLifecycle& lifecycle_;
    LauncherLoss& launcher_;
    const Beat beat_;
    UniqueFd stop_;
    std::thread thread_;
};

// The exit code of a run without an error, from its last stats. The numbers of samples must agree; they come from
// independent records: items given out by the prefetcher, dropped by the egress, published and completed at the broker.
// A mismatch is logged, and the exit code is that of ErrorKind::CountMismatch.
struct RunOutcome {
    std::uint64_t items = 0;          // items in the run's share of the source
    std::uint64_t done_before = 0;    // the ones completed by earlier runs
    std::optional<StopMode> stopped;  // unset: the run ended by itself

    ExitCode exit_code(const RunStats& last) const;
};

}  // namespace offramp
