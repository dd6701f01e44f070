#pragma once

#include <functional>
#include <optional>

#include "common/transport/ports.hpp"

namespace offramp {

// Finds the producer that recovers the run of a dead one: the seam through which the loop meets it, so that tests can
// restart a thread. Owns: the connection that look() gave. Thread: one. Blocks: never; forget(), for a second at most,
// while last messages leave.
class ProducerSearch {
  public:
    struct Found {
        ConsumerPort* port = nullptr;
        int producer = -1;  // a pidfd
    };

    virtual ~ProducerSearch() = default;
    // Closes the connection to a producer that is dead: nothing of it may reach the next one.
    virtual void forget() = 0;
    // A live producer of the same run, later than the last one found. Nothing when there is none yet. Errors: NoSuchRun
    // when the run directory is another run's by now.
    virtual std::optional<Found> look() = 0;
};

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
