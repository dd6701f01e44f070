#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

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

}  // namespace offramp
