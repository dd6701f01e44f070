#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>

#include "common/base/clock.hpp"

namespace offramp {

enum class RunState {
    Starting,  // the parts are being made
    Running,
    Draining,  // no more input is read; what is in flight is finished
    Stopping,  // nothing flows any more
    Ended,     // the parts are used by nobody but their owner
};

// How a run is stopped. Each does what the ones before it do.
enum class StopMode {
    Drain,
    Halt,     // the model's thread ends and learns why; consumers go on, since a successor may go on with them
    Abandon,  // consumers give back what they have not begun, and leave
};

// What a stop acts on. Every call comes between begin() and end(), maybe more than once, from any thread, and returns
// soon.
class StoppableRun {
  public:
    virtual ~StoppableRun() = default;
    virtual void end_input() = 0;
    // Nobody waits for a slab any more.
    virtual void stop_outputs() = 0;
    virtual void dismiss_consumers() = 0;
};

// The life of a run, from its start to its end, of offramp-producer's as of a program's own: whatever may stop it is
// told here, and nowhere else.
//
//                 begin()           stop(Drain)              stop(Halt), stop(Abandon)
//     Starting ────────────▶ Running ─────────▶ Draining ───────────────────────────▶ Stopping
//        a stop waits          └──────────┬────────┴─────────────────┬──────────────────┘
//        here for begin()                 ▼          end()           ▼
//                                       Ended   takes no more stops
//
// A stop is never taken back, and a stronger one replaces a weaker one. Noted beside the state are the first error,
// which is the run's, and the end of the delivery.
//
// Owns: the state. Borrows: the run, which outlives it. Thread: any; begin() and end() from the run's. Blocks: end(),
// until nobody acts on the run any more; wait_for_delivery(). Errors: see require_not_stopped().
class RunLifecycle {
  public:
    // Hears of a run that drains, or stops at once, and why, on the thread that stops it.
    using Listener = std::function<void(StopMode mode, const std::string& why)>;

    explicit RunLifecycle(StoppableRun& run, Listener on_stop = {}) : run_(run), on_stop_(std::move(on_stop)) {}
    RunLifecycle(const RunLifecycle&) = delete;
    RunLifecycle& operator=(const RunLifecycle&) = delete;

    // --- of the run ---
    // For steps of the start. Errors: the first error; Interrupted when the run was stopped.
    void require_not_stopped() const;
    // The parts are there: a stop that came before acts on them now.
    void begin();
    // From here on nothing is asked of the run. May be repeated.
    void end();

    // --- of anyone ---
    void stop(StopMode mode, const std::string& why);
    // Keeps the error, if it is the first; stops nothing.
    void note(std::exception_ptr error);
    // Nothing is in flight any more, and consumers have left.
    void note_delivery_end();
    // False: the run was halted or abandoned before, or the time was over; without one it is waited for as long as it
    // takes.
    bool wait_for_delivery(std::optional<TimePoint> until) const;

    RunState state() const;
    // The strongest that was asked for; nothing: none.
    std::optional<StopMode> stopped() const;
    bool is_stopped(StopMode at_least) const;
    std::exception_ptr error() const;
    std::string failure() const;  // the error's text; empty: none
    // In a word, as the status file has it.
    const char* word() const;
    // Calls work() while the parts are there; end() waits for it. False, and nothing was called: they are not.
    template <class Work>
    bool while_under_way(Work&& work) const {
        const std::shared_lock lock(lifetime_);
        if (!under_way()) return false;
        work();
        return true;
    }

  private:
    enum class Phase { Starting, UnderWay, Over };
    bool under_way() const;
    void act(StopMode mode) const;

    StoppableRun& run_;
    const Listener on_stop_;
    mutable std::shared_mutex lifetime_;  // held while parts are used; taken before mutex_
    mutable std::mutex mutex_;            // guards the rest
    Phase phase_ = Phase::Starting;
    std::optional<StopMode> stop_;
    bool delivery_ended_ = false;
    mutable std::condition_variable changed_;  // one of these two
    std::exception_ptr error_;
    std::string failure_;
};

}  // namespace offramp
