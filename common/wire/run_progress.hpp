#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// A run's progress record, at the end of the ledger object. With it, a producer that recovers the run continues to
// count where its predecessor stopped.
//
//   RunProgress (1024 bytes)   what does not change | current | two ProgressRecords, of which one is current
//
// The broker's thread writes the record that is not current, makes it current by one store of its sequence number, and
// only then takes the step that the record counts (publish, complete, dead_letter, drop). After a death in between, the
// step is counted but not taken. The record names the step, and the next producer takes it first. So every step is
// counted once, and the record and the slabs' states agree.
//
// Version rule: like the ledger's, of which it is a part.
namespace offramp {

// Totals of slabs in the units of users. The progress record and every report use this type.
//
//   slabs | batches | samples | bytes   (32 bytes)
//
// Version rule: like the ledger's, whose progress record contains six of these (run_progress.hpp).
struct SlabTotals {
    std::uint64_t slabs = 0;
    std::uint64_t batches = 0;  // counted with the slab that contains a batch's last rows
    std::uint64_t samples = 0;  // without empty rows
    std::uint64_t bytes = 0;    // payload bytes

    SlabTotals& operator+=(const SlabTotals& more) {
        slabs += more.slabs;
        batches += more.batches;
        samples += more.samples;
        bytes += more.bytes;
        return *this;
    }
    SlabTotals& operator-=(const SlabTotals& fewer) {
        slabs -= fewer.slabs;
        batches -= fewer.batches;
        samples -= fewer.samples;
        bytes -= fewer.bytes;
        return *this;
    }
};

static_assert(sizeof(SlabTotals) == 32 && std::has_unique_object_representations_v<SlabTotals>);
static_assert(std::is_trivially_copyable_v<SlabTotals> && std::is_standard_layout_v<SlabTotals>);
static_assert(offsetof(SlabTotals, batches) == 8 && offsetof(SlabTotals, samples) == 16 &&
              offsetof(SlabTotals, bytes) == 24);

enum class CountedStep : std::uint64_t {
    None = 0,
    Publish = 1,     // Filling → Ready
    Complete = 2,    // Leased or Ready → Retired
    DeadLetter = 3,  // Ready → DeadLettered
    Drop = 4,        // Ready → Free
};

struct ProgressRecord {
    std::uint64_t sequence;    // counts the records from 1; its lowest bit chooses the copy
    std::uint64_t step;        // CountedStep: the step that this record is the first to count
    std::uint64_t slab;        // the slab of that step
    std::uint64_t generation;  // the generation of that slab
    // the high-water mark: every item before this one was published, dropped, skipped, or done before the run
    std::uint64_t items_through;
    std::uint64_t skipped;  // of these items: unreadable, or with meaningless outputs
    SlabTotals published;   // without slabs that were dropped later
    SlabTotals completed;
    SlabTotals dead_letters;
    std::uint64_t dropped;  // samples before the high-water mark that were dropped because no slab was free
    // --- of a run with groups of consumers ---
    SlabTotals dropped_waiting;  // of these: slabs that waited for the group
    // Slabs of `dead_letters` and of `dropped_waiting` that no group had lost before: the run's totals are the sums
    // over its required groups.
    SlabTotals first_dead_letters;
    SlabTotals first_dropped;
    std::uint64_t step_items_through;  // of that step's slab: the number of its last item, plus one
};

struct RunProgress {
    std::uint64_t began_ns;     // CLOCK_MONOTONIC at the start of the run's first producer
    std::uint64_t items;        // of the source
    std::uint64_t keys_hash;    // of the items' names: a different list of equal length is another input
    std::uint64_t producers;    // number of producers so far
    std::uint64_t current;      // sequence of the current record; 0: nothing was counted yet
    std::uint64_t done_before;  // items that earlier runs into the same output folder had completed
    std::array<std::uint64_t, 58> reserved;
    std::array<ProgressRecord, 2> records;
};

static_assert(sizeof(ProgressRecord) == 256 && std::has_unique_object_representations_v<ProgressRecord>);
static_assert(offsetof(ProgressRecord, published) == 48 && offsetof(ProgressRecord, dead_letters) == 112);
static_assert(offsetof(ProgressRecord, step_items_through) == 248);
static_assert(sizeof(RunProgress) == 1024 && std::has_unique_object_representations_v<RunProgress>);
static_assert(offsetof(RunProgress, current) == 32 && offsetof(RunProgress, records) == 512);

}  // namespace offramp
