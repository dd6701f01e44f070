#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "common/base/duration_histogram.hpp"
#include "common/shm/group_policy.hpp"
#include "common/wire/ledger_layout.hpp"
#include "common/wire/run_progress.hpp"
#include "producer/ledger/slab_ledger.hpp"

namespace offramp {

// Why no slab is free, in a word.
inline constexpr const char* kShortageNoConsumers = "no-consumers";
inline constexpr const char* kShortageLeased = "all-leased";         // consumers are slower than the producer
inline constexpr const char* kShortageHeld = "retired-but-held";     // completed, but a late holder has not released it
inline constexpr const char* kShortageDeadLetters = "dead-letters";  // dead letters, on their way to the disk
inline constexpr const char* kShortageFilling = "filling";           // being copied into
inline constexpr const char* kShortageDraining = "draining";         // every consumer is leaving

// One consumer session, living or past.
struct ConsumerReport {
    std::string group{};  // empty in a run without groups
    std::uint64_t pid = 0;
    std::uint64_t session = 0;
    std::uint32_t consumer_index = 0;
    std::uint32_t holding = 0;
    std::vector<std::uint32_t> held;  // the slabs that it holds, from the ledger
    SlabTotals completed;
    double busy_seconds = 0;         // reported by the consumer
    std::string end;                 // empty while it lives; "disconnected" or "died"
    bool ready = false;              // it takes slabs: its processor exists, and it is not leaving
    double oldest_hold_seconds = 0;  // the longest time it has held one of its slabs
    bool stalled = false;            // no progress for longer than a visibility timeout: others also get its slabs
};

struct DeadLetter {
    std::string group{};  // the one that could not process it; empty in a run without groups
    std::uint64_t first_batch = 0;
    std::uint32_t samples = 0;
    std::uint64_t deaths = 0;         // of consumers at work on it
    std::uint64_t failures = 0;       // reported by living consumers
    std::string reason;               // why no consumer gets it any more, for people
    std::vector<std::uint64_t> pids;  // of the consumers that died on it
    std::string payload;              // its file; empty: not there (yet), see error
    std::string error;                // why its payload could not be kept
};

// A run's dead letters, in order. The broker appends, and adds the outcome of each payload. Reports share the list:
// their cost does not depend on its length. Thread: any. Blocks: never for long. Errors: std::out_of_range for an
// unknown index.
class DeadLetterList {
  public:
    // Returns the letter's index.
    std::size_t add(DeadLetter letter) {
        const std::lock_guard lock(mutex_);
        letters_.push_back(std::move(letter));
        return letters_.size() - 1;
    }
    void set_outcome(std::size_t index, std::string payload, std::string error) {
        const std::lock_guard lock(mutex_);
        letters_.at(index).payload = std::move(payload);
        letters_.at(index).error = std::move(error);
    }
    std::size_t size() const {
        const std::lock_guard lock(mutex_);
        return letters_.size();
    }
    DeadLetter at(std::size_t index) const {
        const std::lock_guard lock(mutex_);
        return letters_.at(index);
    }
    std::vector<DeadLetter> all() const {
        const std::lock_guard lock(mutex_);
        return letters_;
    }

  private:
    mutable std::mutex mutex_;
    std::vector<DeadLetter> letters_;
};

// One group of consumers.
struct GroupReport {
    std::string name;
    bool optional = false;
    SlabTotals published, completed, dead_lettered, in_flight, spilled, ever_spilled, dropped;
    std::array<std::uint32_t, kSlabStates> slabs{};
    std::uint64_t last_release_ns = 0;  // CLOCK_MONOTONIC; 0: none yet
    std::uint32_t consumers = 0;        // present
    std::string shortage;               // why it keeps the run from a free slab; empty: it does not
    WhenFull when_full = WhenFull::Wait;
};

// How often each reason to refuse a message occurred, by its words (refusals.hpp).
using RefusalCounts = std::map<std::string, std::uint64_t>;

// The broker's totals at one moment: the counters agree with one another.
struct BrokerReport {
    SlabTotals published, completed, dead_lettered, in_flight;
    SlabTotals dropped;  // published, and dropped while they waited
    SlabTotals spilled;  // on the disk now
    SlabTotals ever_spilled;
    std::string spill_error;  // why the last slab could not be spilled; empty: it was
    SlabTotals redelivered;   // by delivery, beyond the first of a filling
    std::uint64_t deliveries = 0;
    std::array<std::uint64_t, kReleaseOutcomes> releases{};
    std::uint64_t repeated_releases = 0;  // duplicates: acknowledged again, no other effect
    RefusalCounts refused;
    std::array<std::uint32_t, kSlabStates> slabs{};
    std::vector<SlabState> slab_states;  // by slab
    // of this producer's deliveries
    DurationHistogram queue;          // wait from publication, or return, to delivery
    DurationHistogram process;        // from delivery to completion or failure
    std::uint64_t slab_failures = 0;  // failures counted against slabs: deaths and reported failures
    std::vector<ConsumerReport> consumers;
    std::shared_ptr<DeadLetterList> dead_letters = std::make_shared<DeadLetterList>();
    std::string last_failure;            // the last failure reported by a consumer, for people
    std::uint64_t first_release_ns = 0;  // CLOCK_MONOTONIC; 0: none yet
    std::uint64_t last_release_ns = 0;
    std::uint64_t steady_since_ns = 0;      // when the warm-up batches had been released
    SlabTotals before_steady;               // completed until then
    std::string shortage_reason;            // one of kShortage...; empty when a slab is free
    std::string shortage;                   // the same with each holder, for people
    std::uint64_t payloads_lost = 0;        // dead letters whose payload could not be written
    std::uint64_t visibility_timeouts = 0;  // consumers that made no progress for a visibility timeout
    std::uint64_t stalled_killed = 0;       // of those: killed
    bool ended = false;                     // nothing is in flight, and every consumer has been ordered to leave
    std::vector<GroupReport> groups;  // empty in a run without groups. A slab is completed when every required group
                                      // has completed it, and a dead letter when one of them cannot process it. One
                                      // that is on the disk for a group is in flight for the run

    // Counts a completed slab. The steady state begins after `warmup_batches`.
    void complete(const SlabTotals& slab, std::uint64_t done_at_ns, std::uint64_t warmup_batches) {
        completed += slab;
        last_release_ns = done_at_ns;
        if (first_release_ns == 0) first_release_ns = done_at_ns;
        if (steady_since_ns == 0 && completed.batches >= warmup_batches) {
            steady_since_ns = done_at_ns;
            before_steady = completed;
        }
    }
    // published = completed + in flight + spilled + dead_lettered + dropped, in samples, also for each group.
    bool conserved() const {
        const auto of_a_group = [](const GroupReport& group) {
            return group.published.samples == group.completed.samples + group.in_flight.samples +
                                                  group.spilled.samples + group.dead_lettered.samples +
                                                  group.dropped.samples;
        };
        return published.samples ==
                   completed.samples + in_flight.samples + spilled.samples + dead_lettered.samples + dropped.samples &&
               std::ranges::all_of(groups, of_a_group);
    }
};

}  // namespace offramp
