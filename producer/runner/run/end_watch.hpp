#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "common/app/program/end_signals.hpp"
#include "common/base/unique_fd.hpp"
#include "producer/egress/run_lifecycle.hpp"
#include "producer/runner/run/launcher_loss.hpp"

namespace offramp {

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

}  // namespace offramp
