#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "common/base/clock.hpp"
#include "producer/ledger/slab_ledger.hpp"

namespace offramp {

struct ReadySlab {
    std::uint32_t slab = 0;
    std::uint64_t generation = 0;
    TimePoint since{};  // it waits
    TimePoint not_before{};
};

// The slabs that wait for a consumer, in the order in which they are handed out. An entry may outlive its slab's
// filling (it was completed late, or is a dead letter): it is passed over, and dropped with the next keep_if().
//
// Owns: the queue. Borrows: ledger, clock. Thread: the broker's. Blocks: never. Errors: none.
class ReadyQueue {
  public:
    ReadyQueue(const SlabLedger& ledger, const Clock& clock) : ledger_(ledger), clock_(clock) {}

    // A slab that has just become Ready, for the first time: behind the others.
    void append(std::uint32_t slab) { entries_.push_back(entry_of(slab, {})); }
    // When it has been out before: ahead of them, though not handed out before the delay is over.
    void put_ahead(std::uint32_t slab, std::chrono::nanoseconds delay = {}) {
        entries_.push_front(entry_of(slab, delay));
    }

    // When it was taken out and yet not handed out: as it was, with the time that it waits.
    void put_back(std::uint32_t slab, std::chrono::nanoseconds delay, TimePoint since) {
        put_ahead(slab, delay);
        entries_.front().since = since;
    }

    bool empty() const { return entries_.empty(); }
    std::deque<ReadySlab>::const_iterator begin() const { return entries_.begin(); }
    std::deque<ReadySlab>::const_iterator end() const { return entries_.end(); }
    // Whether it still is what it was when it was put here.
    static bool is_current(const ReadySlab& entry, SlabWord word) {
        return word.state == SlabState::Ready && word.generation == entry.generation;
    }
    // Asks keep(entry, left) of each in order; `left` are those kept so far, this one, and those behind it. `keep` puts
    // none here.
    template <class Keep>
    void keep_if(Keep keep) {
        const std::size_t all = entries_.size();
        std::size_t kept = 0;
        for (std::size_t i = 0; i < all; ++i) {
            const ReadySlab entry = entries_[i];
            if (keep(entry, kept + all - i)) entries_[kept++] = entry;
        }
        entries_.resize(kept);
    }

  private:
    ReadySlab entry_of(std::uint32_t slab, std::chrono::nanoseconds delay) const {
        const TimePoint now = clock_.now();
        return {slab, ledger_.word(slab).generation, now, now + delay};
    }

    const SlabLedger& ledger_;
    const Clock& clock_;
    std::deque<ReadySlab> entries_;
};

}  // namespace offramp
