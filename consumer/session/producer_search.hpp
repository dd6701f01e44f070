#pragma once

#include <functional>
#include <optional>

#include "common/transport/ports.hpp"

namespace offramp {

// Finds the producer that recovers a dead producer's run. An interface, so that tests can restart a producer as a
// thread. Owns: the connection that look() returned. Thread: one. Blocks: never, except forget(), for at most a second
// while last messages leave.
class ProducerSearch {
  public:
    struct Found {
        ConsumerPort* port = nullptr;
        int producer = -1;  // a pidfd
    };

    virtual ~ProducerSearch() = default;
    // Closes the connection to a dead producer, so that none of its messages reaches the next one.
    virtual void forget() = 0;
    // A live producer of the same run, of a later epoch than the last one found. Nothing when there is none yet.
    // Errors: NoSuchRun when another run now owns the run directory.
    virtual std::optional<Found> look() = 0;
};

// The consumer's run, as the run directory shows it.
enum class RunLiveness {
    Open,             // the producer that was met takes consumers, as far as known
    TakenOver,        // a producer of a later epoch has published its endpoint
    Closed,           // the endpoint is gone; admitted consumers are still served
    Over,             // closed, and its memory is removed: no producer is left
    Replaced,         // like Closed, and another run has published its endpoint
    OverAndReplaced,  // like Over, and another run has published its endpoint
};

inline bool is_replaced(RunLiveness liveness) {
    return liveness == RunLiveness::Replaced || liveness == RunLiveness::OverAndReplaced;
}
inline bool may_be_served(RunLiveness liveness) {
    return liveness == RunLiveness::Closed || liveness == RunLiveness::Replaced;
}

using ObserveRun = std::function<RunLiveness()>;

}  // namespace offramp
