#pragma once

#include <atomic>

#include "producer/egress/run_lifecycle.hpp"

namespace offramp {

// How a run reacts when its launcher is gone: no process is left to start another consumer, or a successor of a dead
// producer.
//
// Owns: that it is gone. Borrows: the lifecycle. Thread: any. Blocks: never. Errors: none.
class LauncherLoss {
  public:
    explicit LauncherLoss(RunLifecycle& lifecycle) : lifecycle_(lifecycle) {}

    // Drains the run.
    void launcher_gone();
    // Without a launcher and consumers, slabs in flight can never be taken: abandons the run.
    void no_consumers();
    // A producer that dies now leaves a run that another one may go on with.
    bool may_be_succeeded() const;

  private:
    RunLifecycle& lifecycle_;
    std::atomic<bool> gone_{false};
};

}  // namespace offramp
