#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// A run's progress record, at the end of the ledger object, so that a producer that recovers the run goes on
// counting where its predecessor stopped.
//
//   RunProgress (512 bytes)   what does not change | current | two ProgressRecords, of which one is current
//
// The broker's thread writes the record that is not current, makes it current by one store of its sequence number, and
// only then takes the step that the record counts (publish, complete, dead_letter). A death in between leaves a step
// that is counted and not taken: the record names it, and the next producer takes it first. So every step is counted
// once, and the record and the slabs' states never contradict each other.
//
// Version rule: as for the ledger, of which it is a part.
namespace offramp {

// Adds up slabs in the units that users count in. The same type in the progress record's bytes and in every report.
//
//   slabs | batches | samples | bytes   (32 bytes)
//
// Version rule: as for the ledger, whose progress record holds three of them (run_progress.hpp).
struct SlabTotals {
    std::uint64_t slabs = 0;
    std::uint64_t batches = 0;  // counted with the slab that holds a batch's last rows
    std::uint64_t samples = 0;  // without empty rows
    std::uint64_t bytes = 0;    // of payload

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
};

struct ProgressRecord {
    std::uint64_t sequence;    // counts the records from 1; its lowest bit chooses the copy
    std::uint64_t step;        // CountedStep: the one that this record counts first
    std::uint64_t slab;        // of that step
    std::uint64_t generation;  // of that slab
    // the high-water mark: every item before this one was published, dropped, skipped, or done before the run
    std::uint64_t items_through;
    std::uint64_t skipped;  // of them: items that could not be read, or whose outputs mean nothing
    SlabTotals published;
    SlabTotals completed;
    SlabTotals dead_letters;
    std::uint64_t dropped;  // samples before the high-water mark that were dropped, since no slab was free
    std::array<std::uint64_t, 1> reserved;
};

struct RunProgress {
    std::uint64_t began_ns;     // CLOCK_MONOTONIC at the start of the run's first producer
    std::uint64_t items;        // of the source
    std::uint64_t keys_hash;    // of the items' names: another list of as many items is another input
    std::uint64_t producers;    // that have served the run
    std::uint64_t current;      // sequence of the record that counts; 0: nothing was counted yet
    std::uint64_t done_before;  // items that were done when the run began: by earlier runs into the same output folder
    std::array<std::uint64_t, 18> reserved;
    std::array<ProgressRecord, 2> records;
};

static_assert(sizeof(ProgressRecord) == 160 && std::has_unique_object_representations_v<ProgressRecord>);
static_assert(offsetof(ProgressRecord, published) == 48 && offsetof(ProgressRecord, dead_letters) == 112);
static_assert(sizeof(RunProgress) == 512 && std::has_unique_object_representations_v<RunProgress>);
static_assert(offsetof(RunProgress, current) == 32 && offsetof(RunProgress, records) == 192);

}  // namespace offramp
