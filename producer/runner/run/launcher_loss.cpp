#include "producer/runner/run/launcher_loss.hpp"

namespace offramp {

void LauncherLoss::launcher_gone() {
    gone_ = true;
    lifecycle_.stop(StopMode::Drain, "the launcher is gone");
}

void LauncherLoss::no_consumers() {
    // A run that is starting has no consumers yet.
    if (gone_ && lifecycle_.state() != RunState::Starting)
        lifecycle_.stop(StopMode::Abandon, "the launcher and all consumers are gone");
}

bool LauncherLoss::may_be_succeeded() const {
    return !gone_ && lifecycle_.state() != RunState::Ended && !lifecycle_.is_stopped(StopMode::Abandon);
}

}  // namespace offramp
