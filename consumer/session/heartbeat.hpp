#pragma once

#include <chrono>
#include <cstdint>

#include "common/wire/ledger_layout.hpp"
#include "common/wire/slab_ticket.hpp"

namespace offramp {

// Writes this consumer's own heartbeat record: what it works on, so that its death is counted against that delivery
// alone, and signs of life, so that a long slab keeps its visibility timeout. Every write is one store of one word; the
// producer may read at any moment.
//
// Borrows: the heartbeat record. Thread: one writes. Blocks: never.
class Heartbeat {
  public:
    // The amounts that a finished slab adds to the heartbeat record's counts.
    struct Finished {
        std::chrono::nanoseconds busy{};
        std::uint64_t samples = 0;
        std::uint64_t bytes = 0;
    };

    // Clears what an earlier session left, then stores `session`: from then on the producer believes the
    // heartbeat record.
    Heartbeat(HeartbeatRecord& heartbeat, std::uint64_t session);

    // From here on a death is counted against this delivery.
    void begin(const SlabTicket& ticket);
    void progress();
    // The results are committed: counts them, then clears the work word.
    void end(const Finished& finished);
    // Clears the work word: a death from here on is counted against nothing.
    void clear();

  private:
    HeartbeatRecord* heartbeat_;
};

}  // namespace offramp
