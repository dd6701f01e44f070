#include "producer/egress/run_lifecycle.hpp"

#include <utility>

#include "common/base/error.hpp"

namespace offramp {

void RunLifecycle::require_not_stopped() const {
    const std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
    if (stop_) throw Error(ErrorKind::Interrupted, "stopped while starting: nothing was read yet");
}

void RunLifecycle::begin() {
    std::optional<StopMode> waiting;
    {
        const std::unique_lock lifetime(lifetime_);
        const std::lock_guard lock(mutex_);
        expect(phase_ == Phase::Starting, "a run begins once");
        phase_ = Phase::UnderWay;
        waiting = stop_;
    }
    if (waiting) act(*waiting);
}

void RunLifecycle::end() {
    const std::unique_lock lifetime(lifetime_);
    const std::lock_guard lock(mutex_);
    phase_ = Phase::Over;
}

void RunLifecycle::stop(StopMode mode, const std::string& why) {
    std::optional<StopMode> before;
    {
        const std::lock_guard lock(mutex_);
        if (phase_ == Phase::Over || (stop_ && *stop_ >= mode)) return;
        before = std::exchange(stop_, mode);
    }
    changed_.notify_all();
    if (on_stop_ && before != StopMode::Halt) on_stop_(mode, why);
    act(mode);
}

// Before begin() there is no part to act on; begin() repeats the call.
void RunLifecycle::act(StopMode mode) const {
    while_under_way([&] {
        run_.end_input();
        if (mode >= StopMode::Halt) run_.stop_outputs();
        if (mode == StopMode::Abandon) run_.dismiss_consumers();
    });
}

void RunLifecycle::note(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error_) return;
    error_ = std::move(error);
    failure_ = exception_text(error_);
}

void RunLifecycle::note_delivery_end() {
    {
        const std::lock_guard lock(mutex_);
        delivery_ended_ = true;
    }
    changed_.notify_all();
}

bool RunLifecycle::wait_for_delivery(std::optional<TimePoint> until) const {
    std::unique_lock lock(mutex_);
    const auto decided = [this] { return delivery_ended_ || stop_ >= StopMode::Halt; };
    if (until)
        changed_.wait_until(lock, *until, decided);
    else
        changed_.wait(lock, decided);
    return delivery_ended_;
}

RunState RunLifecycle::state() const {
    const std::lock_guard lock(mutex_);
    if (phase_ == Phase::Starting) return RunState::Starting;
    if (phase_ == Phase::Over) return RunState::Ended;
    if (!stop_) return RunState::Running;
    return *stop_ == StopMode::Drain ? RunState::Draining : RunState::Stopping;
}

std::optional<StopMode> RunLifecycle::stopped() const {
    const std::lock_guard lock(mutex_);
    return stop_;
}

bool RunLifecycle::is_stopped(StopMode at_least) const {
    const auto stop = stopped();
    return stop && *stop >= at_least;
}

std::exception_ptr RunLifecycle::error() const {
    const std::lock_guard lock(mutex_);
    return error_;
}

std::string RunLifecycle::failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
}

const char* RunLifecycle::word() const {
    const std::lock_guard lock(mutex_);
    if (error_) return "failed";
    if (phase_ == Phase::Over) return stop_ == StopMode::Abandon ? "abandoned" : "ended";
    if (stop_) return "draining";
    return delivery_ended_ ? "ending" : "running";
}

bool RunLifecycle::under_way() const {
    const std::lock_guard lock(mutex_);
    return phase_ == Phase::UnderWay;
}

}  // namespace offramp
