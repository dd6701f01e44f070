#pragma once

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

}  // namespace offramp
