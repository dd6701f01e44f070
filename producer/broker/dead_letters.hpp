#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "producer/broker/broker_options.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/broker/slab_records.hpp"
#include "producer/ledger/slab_ledger.hpp"

namespace offramp {

// Writes dead letters to the disk and frees their slabs; a run without a writer only counts them.
//
// Owns: letters that wait for the writer, and those with it. Borrows: what its constructor names. Thread: the
// broker's. Blocks: never, the writer has its own thread. Errors: none; a payload that could not be kept is in the
// totals.
class DeadLetters {
  public:
    DeadLetters(SlabLedger& ledger, const BrokerOptions& options, SlabRecords& slab_records, BrokerReport& totals)
        : ledger_(ledger), options_(options), slab_records_(slab_records), totals_(totals) {}

    // Withdraws a Ready slab that took down too many consumers.
    void dead_letter(std::uint32_t slab);
    // Handles a slab that is DeadLettered and counted: by dead_letter(), or by a previous producer.
    void enqueue(std::uint32_t slab);
    // Frees slabs whose letter is on the disk, or could not be written (that is in the totals).
    void free_written();
    // Gives the writer a few slabs at a time. The others stay DeadLettered; no other work waits for them.
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

    SlabLedger& ledger_;
    const BrokerOptions& options_;
    SlabRecords& slab_records_;
    BrokerReport& totals_;
    std::deque<Pending> queue_;  // DeadLettered, and not yet at the writer
    std::vector<Pending> at_the_writer_;
};

}  // namespace offramp
