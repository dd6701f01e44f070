#pragma once

#include <functional>

namespace offramp {

// What the run directory says of the run that a consumer came for.
enum class RunStanding {
    Open,             // the producer that was met takes consumers, as far as anybody can tell
    TakenOver,        // a producer of a later epoch has published its endpoint
    Closed,           // there is no endpoint: whoever was let in is still served
    Over,             // closed, and its memory is removed: nobody serves it
    Replaced,         // as Closed, and another run's endpoint is there
    OverAndReplaced,  // as Over, and another run's endpoint is there
};

inline bool another_run_is_there(RunStanding standing) {
    return standing == RunStanding::Replaced || standing == RunStanding::OverAndReplaced;
}
inline bool somebody_may_serve(RunStanding standing) {
    return standing == RunStanding::Closed || standing == RunStanding::Replaced;
}

using LookAtRun = std::function<RunStanding()>;

}  // namespace offramp
