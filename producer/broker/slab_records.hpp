#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.hpp"
#include "producer/broker/broker_report.hpp"
#include "producer/broker/dead_letter_writer.hpp"
#include "producer/broker/peers.hpp"
#include "producer/ledger/slab_ledger.hpp"
#include "producer/pool/slab_exchange.hpp"

namespace offramp {

struct ReadySlab {
    std::uint32_t slab = 0;
    std::uint64_t generation = 0;
    TimePoint since{};  // start of its wait
    TimePoint not_before{};
};

// The slabs that wait for a consumer, in the order in which they are handed out: first those returned by a consumer,
// then new ones. An entry is stale once its slab was completed late or became a dead letter; the next walk drops it.
//
// Owns: the queue. Borrows: ledger, clock. Thread: the broker's. Blocks: never. Errors: none.
class ReadyQueue {
  public:
    ReadyQueue(const SlabLedger& ledger, const Clock& clock) : ledger_(ledger), clock_(clock) {}

    // Adds a slab that is Ready for the first time, behind the others.
    void append(std::uint32_t slab) { entries_.push_back(entry_of(slab, {})); }
    // Adds a returned slab ahead of them; it is not handed out before the delay is over.
    void put_ahead(std::uint32_t slab, std::chrono::nanoseconds delay = {}) {
        entries_.push_front(entry_of(slab, delay));
    }

    // Restores a slab that was taken out but not handed out, with its waiting time.
    void put_back(std::uint32_t slab, std::chrono::nanoseconds delay, TimePoint since) {
        put_ahead(slab, delay);
        entries_.front().since = since;
    }

    bool empty() const { return entries_.empty(); }
    std::deque<ReadySlab>::const_iterator begin() const { return entries_.begin(); }
    std::deque<ReadySlab>::const_iterator end() const { return entries_.end(); }
    // True if the slab is still in the state of its entry.
    static bool is_current(const ReadySlab& entry, SlabWord word) {
        return word.state == SlabState::Ready && word.generation == entry.generation;
    }
    // Removes a slab that went to the disk or was dropped.
    void remove(std::uint32_t slab) {
        std::erase_if(entries_, [&](const ReadySlab& entry) { return entry.slab == slab; });
    }

    enum class Walk { Drop, Keep, KeepAndStop };
    // Calls visit(entry, left) for each entry in order, until it returns KeepAndStop: later entries are not visited.
    // `left` counts the entries kept so far, this one, and those behind it. `visit` adds no entry.
    template <class Visit>
    void walk(Visit visit) {
        const std::size_t all = entries_.size();
        std::size_t kept = 0;
        std::size_t seen = 0;
        for (bool stopped = false; seen < all && !stopped; ++seen) {
            const ReadySlab entry = entries_[seen];
            const Walk answer = visit(entry, kept + all - seen);
            if (answer != Walk::Drop) entries_[kept++] = entry;
            stopped = answer == Walk::KeepAndStop;
        }
        entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(kept),
                       entries_.begin() + static_cast<std::ptrdiff_t>(seen));
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

// A slab's current contents, and its deliveries so far.
struct SlabRecord {
    PublishedSlab published;
    std::uint32_t deliveries = 0;
    std::uint32_t returns = 0;
    std::uint32_t failures = 0;  // reported by consumers that are alive
    bool rejected = false;       // a consumer reported that retries are useless
    std::vector<std::uint64_t> killed_pids;
    std::vector<DeliveryRecord> failed;  // deliveries that did not complete it
    // the current delivery
    TimePoint leased_at{};
    std::uint32_t attempt = 0;          // 0: not delivered by this producer
    std::chrono::nanoseconds waited{};  // time before the delivery
};

// The records of all slabs.
//
// Owns: one record per slab. Borrows: the clock. Thread: the broker's. Blocks: never. Errors: none; a slab's number is
// one of the pool's.
class SlabRecords {
  public:
    SlabRecords(std::uint32_t slabs, const Clock& clock) : clock_(clock), records_(slabs) {}

    SlabRecord& operator[](std::uint32_t slab) { return records_[slab]; }
    const SlabRecord& operator[](std::uint32_t slab) const { return records_[slab]; }
    std::vector<SlabRecord>::iterator begin() { return records_.begin(); }
    std::vector<SlabRecord>::iterator end() { return records_.end(); }

    // When this delivery began; nothing if a previous producer made it.
    std::optional<TimePoint> delivered_at(std::uint32_t slab, std::uint32_t attempt) const;
    // A failed delivery may end twice: its visibility timeout runs out, and later its holder dies. The later end
    // replaces the earlier.
    void note_failed(std::uint32_t slab, std::uint32_t attempt, const Peer& peer, const char* end, bool counted,
                     std::string why = {});

  private:
    const Clock& clock_;
    std::vector<SlabRecord> records_;
};

// Takes back the slabs of a consumer that has left or will not process them.
//
// Borrows: ledger, slab records, ready queue, totals. Thread: the broker's. Blocks: never. Errors: none.
class SlabReturns {
  public:
    SlabReturns(SlabLedger& ledger, SlabRecords& slab_records, ReadyQueue& ready, BrokerReport& totals)
        : ledger_(ledger), slab_records_(slab_records), ready_(ready), totals_(totals) {}

    // `work`: a dead consumer's work word. `how`: how the consumer ended, for the record of each delivery.
    void take_back(Peer& peer, std::uint64_t work, const char* how);

  private:
    SlabLedger& ledger_;
    SlabRecords& slab_records_;
    ReadyQueue& ready_;
    BrokerReport& totals_;
};

}  // namespace offramp
