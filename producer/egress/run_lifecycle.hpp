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
    Draining,  // reads no more input and finishes what is in flight
    Stopping,  // nothing flows any more
    Ended,     // only their owner uses the parts
};

// How a run is stopped. Each mode includes the ones before it.
enum class StopMode {
    Drain,
    Halt,     // ends the model's thread with the reason; consumers go on, for a possible successor
    Abandon,  // consumers return what they have not begun, and leave
};

// The parts that a stop acts on. Every call comes between begin() and end(), possibly repeated, from any thread, and
// returns soon.
class StoppableRun {
  public:
    virtual ~StoppableRun() = default;
    virtual void end_input() = 0;
    // Wakes all waits for a slab.
    virtual void stop_outputs() = 0;
    virtual void dismiss_consumers() = 0;
};

// The life of a run from start to end, in offramp-producer and in a program. Every stop goes through it.
//
//                 begin()           stop(Drain)              stop(Halt), stop(Abandon)
//     Starting ────────────▶ Running ─────────▶ Draining ───────────────────────────▶ Stopping
//        a stop waits          └──────────┬────────┴─────────────────┬──────────────────┘
//        here for begin()                 ▼          end()           ▼
//                                       Ended   takes no more stops
//
// A stop is final; a stronger one replaces a weaker one. It also records the first error, which is the run's, and the
// end of the delivery.
//
// Owns: the state. Borrows: the run, which outlives it. Thread: any; begin() and end() from the run's. Blocks: end(),
// until no thread acts on the run; wait_for_delivery(). Errors: see require_not_stopped().
class RunLifecycle {
  public:
    // Called when a run drains or stops, with the reason, on the thread that stops it.
    using Listener = std::function<void(StopMode mode, const std::string& why)>;

    explicit RunLifecycle(StoppableRun& run, Listener on_stop = {}) : run_(run), on_stop_(std::move(on_stop)) {}
    RunLifecycle(const RunLifecycle&) = delete;
    RunLifecycle& operator=(const RunLifecycle&) = delete;

    // --- for the run ---
    // For the steps of the start. Errors: the first error; Interrupted when the run was stopped.
    void require_not_stopped() const;
    // The parts exist: an earlier stop acts on them now.
    void begin();
    // From here on the run is left alone. May be repeated.
    void end();

    // --- for any caller ---
    void stop(StopMode mode, const std::string& why);
    // Keeps the error if it is the first; stops nothing.
    void note(std::exception_ptr error);
    // Nothing is in flight, and consumers have left.
    void note_delivery_end();
    // False: the run was halted or abandoned first, or the time ran out. Without `until`, the wait has no limit.
    bool wait_for_delivery(std::optional<TimePoint> until) const;

    RunState state() const;
    // The strongest mode requested; nothing: none.
    std::optional<StopMode> stopped() const;
    bool is_stopped(StopMode at_least) const;
    std::exception_ptr error() const;
    std::string failure() const;  // the error's text; empty: none
    // In one word, as in the status file.
    const char* word() const;
    // Calls work() while the parts exist; end() waits for it. False: they do not, and work() was not called.
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
    mutable std::condition_variable changed_;  // on one of these two
    std::exception_ptr error_;
    std::string failure_;
};

}  // namespace offramp
