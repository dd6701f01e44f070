#pragma once

#include <atomic>

#include "producer/egress/run_lifecycle.hpp"

namespace offramp {

// What it means to a run that its launcher is gone: nobody is left who would start another consumer, or another
// producer in the place of one that dies.
//
// Owns: that it is gone. Borrows: the lifecycle. Thread: any. Blocks: never. Errors: none.
class LauncherLoss {
  public:
    explicit LauncherLoss(RunLifecycle& lifecycle) : lifecycle_(lifecycle) {}

    // Drains the run.
    void launcher_gone();
    // Without a launcher and without consumers, what is in flight can never be taken: the run is abandoned.
    void no_consumers();
    // A producer that dies now leaves a run that another one may go on with.
    bool may_be_succeeded() const;

  private:
    RunLifecycle& lifecycle_;
    std::atomic<bool> gone_{false};
};

}  // namespace offramp
