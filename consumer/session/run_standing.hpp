#pragma once

#include <functional>

namespace offramp {

// What the run directory says of the run that a consumer came for.
enum class RunStanding {
    Open,       // the producer that was met takes consumers, as far as anybody can tell
    TakenOver,  // a producer of a later epoch has published its endpoint
    Closed,     // there is no endpoint, or another run's: whoever was let in is still served
    Over,       // closed, and its memory is removed: nobody serves it
};

using LookAtRun = std::function<RunStanding()>;

}  // namespace offramp
