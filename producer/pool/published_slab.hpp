#pragma once

#include <cstdint>
#include <vector>

#include "common/base/item_ranges.hpp"
#include "common/wire/slab_totals.hpp"

namespace offramp {

// The contents of a published slab, for the broker's totals.
struct PublishedSlab {
    std::uint32_t slab = 0;
    std::uint64_t first_batch = 0;
    std::uint32_t samples = 0;        // without empty rows
    std::uint32_t batches_ended = 0;  // batches whose last rows are in this slab
    std::uint64_t bytes = 0;          // of the payload
    std::uint64_t filled_at_ns = 0;
    std::uint64_t items_through = 0;  // the number of the last item in it, plus one
    std::uint32_t skipped = 0;        // items, including those of skipped batches just before it
    std::uint32_t dropped = 0;        // samples dropped just before it, for want of a free slab
    std::vector<ItemRange> items;     // without empty rows, in the order of the slab's rows

    // Its contribution to totals.
    SlabTotals totals() const { return {.slabs = 1, .batches = batches_ended, .samples = samples, .bytes = bytes}; }
};

}  // namespace offramp
