#pragma once

#include <cstdint>
#include <vector>

#include "common/base/item_ranges.hpp"

namespace offramp {

// Selects the batches of a source to make, and their rows. Batch k is always the items [k*batch, (k+1)*batch). A row
// whose item is completed, or outside this run's share, stays empty in place; a batch of only such rows is left out. So
// a sample's place in its batch, and with it the exact bits of the model's result, is the same as in an undisturbed
// run. Thread: any, once made. Blocks: never. Memory: 16 bytes per gap in `done`.
class BatchPlan {
  public:
    BatchPlan(std::uint64_t items, std::uint32_t batch, ItemRanges done = {});

    // The number of batches to make; each has at least one wanted row.
    std::uint64_t batches() const { return batches_; }
    // The number of the batch made as the `turn`th, from 0.
    std::uint64_t number(std::uint64_t turn) const;
    // Fewer than a full batch in the source's last one.
    std::uint32_t rows(std::uint64_t number) const;
    bool is_done(std::uint64_t item) const { return !done_.empty() && done_.contains(item); }
    // Rows of a batch that are not completed yet.
    std::uint32_t wanted_rows(std::uint64_t number) const;
    // The first row of a batch, from `row` on, that is not completed yet; rows(number) when there is none.
    std::uint32_t next_wanted(std::uint64_t number, std::uint32_t row) const;

  private:
    // Consecutive batches that are all made.
    struct Stretch {
        std::uint64_t turn = 0;  // of its first one
        std::uint64_t number = 0;
    };

    std::uint64_t items_;
    std::uint32_t batch_;
    ItemRanges done_;
    std::uint64_t batches_ = 0;
    std::vector<Stretch> made_;  // in order; each ends where the next begins, the last one with the turns
};

}  // namespace offramp
