#pragma once

#include <optional>
#include <utility>

#include "common/shm/run_objects.hpp"

namespace offramp {

// Keeps a run without a launcher alive, so that no sweep removes its objects. Destruction removes everything of the run
// from /dev/shm. Declare it before objects that create or map the run's memory. Errors: those of RunLock::hold().
class HeldRun {
  public:
    explicit HeldRun(RunNames names) : names_(std::move(names)), lock_(RunLock::hold(names_, true)) {}
    ~HeldRun() {
        lock_.reset();
        sweep_run(names_);
    }
    HeldRun(const HeldRun&) = delete;
    HeldRun& operator=(const HeldRun&) = delete;

    const RunNames& names() const { return names_; }

  private:
    RunNames names_;
    std::optional<RunLock> lock_;
};

}  // namespace offramp
