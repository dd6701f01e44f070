#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "producer/broker/broker_state.hpp"

namespace offramp {

// Dead letters go to the disk, and their memory back into the pool; a run without a writer only counts them.
//
// Owns: what waits for the writer, and what is with it. Borrows: the state; of it: writer, ledger, slab_records,
// totals. Thread: the broker's. Blocks: never, the writer has a thread of its own. Errors: none; a payload that could
// not be kept is in the totals.
class DeadLetters {
  public:
    explicit DeadLetters(BrokerState& state) : state_(state) {}

    // A Ready slab that took too many consumers down: nobody gets it any more.
    void dead_letter(std::uint32_t slab);
    // Sees to a slab that is DeadLettered, and counted: by dead_letter(), or by a previous producer.
    void enqueue(std::uint32_t slab);
    // What is on the disk, or cannot get there (that is in the totals), makes room.
    void free_written();
    // The writer has few slabs at a time; those that wait for it stay DeadLettered, and nobody else waits for either.
    void write_next();
    bool has_next() const { return !queue_.empty(); }

  private:
    struct Pending {
        std::uint32_t slab = 0;
        std::size_t entry = 0;  // in the totals' list of dead letters
    };
    std::uint32_t most_at_the_writer() const;
    std::uint64_t deaths_of(std::uint32_t slab) const;
    std::string reason_of(std::uint32_t slab) const;

    BrokerState& state_;
    std::deque<Pending> queue_;  // DeadLettered, and not at the writer yet
    std::vector<Pending> at_the_writer_;
};

}  // namespace offramp
