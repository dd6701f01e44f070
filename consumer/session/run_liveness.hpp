#pragma once

#include <functional>

namespace offramp {

// The state in the run directory of the run that a consumer came for.
enum class RunLiveness {
    Open,             // the producer that was met takes consumers, as far as is known
    TakenOver,        // a producer of a later epoch has published its endpoint
    Closed,           // there is no endpoint: admitted consumers are still served
    Over,             // closed, and its memory is removed: it has no producer
    Replaced,         // as Closed, and another run's endpoint is there
    OverAndReplaced,  // as Over, and another run's endpoint is there
};

inline bool is_replaced(RunLiveness liveness) {
    return liveness == RunLiveness::Replaced || liveness == RunLiveness::OverAndReplaced;
}
inline bool may_be_served(RunLiveness liveness) {
    return liveness == RunLiveness::Closed || liveness == RunLiveness::Replaced;
}

using ObserveRun = std::function<RunLiveness()>;

}  // namespace offramp
