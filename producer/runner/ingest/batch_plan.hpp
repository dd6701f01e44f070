#pragma once

#include <cstdint>
#include <vector>

#include "common/base/item_ranges.hpp"

namespace offramp {

// Which batches of a source are made, and which of their rows. Batch k is the items [k*batch, (k+1)*batch), whatever
// was done before: a row whose item is done already, or not of this run's share, is empty where it stood, and a batch
// of nothing else is left out. So a sample's place in its batch, and with it the bits that a model computes, is the
// same as in a run that nothing disturbed. Thread: any, once made. Blocks: never. Memory: 16 bytes a
// gap in `done`.
class BatchPlan {
  public:
    BatchPlan(std::uint64_t items, std::uint32_t batch, ItemRanges done = {});

    // How many are made; each has at least one row that is wanted.
    std::uint64_t batches() const { return batches_; }
    // The number of the batch that is made as the `turn`th, from 0.
    std::uint64_t number(std::uint64_t turn) const;
    // Fewer than a full batch in the source's last one.
    std::uint32_t rows(std::uint64_t number) const;
    bool is_done(std::uint64_t item) const { return !done_.empty() && done_.contains(item); }
    // Rows of a batch that are not done yet.
    std::uint32_t wanted_rows(std::uint64_t number) const;
    // The first row of a batch, from `row` on, that is not done yet; rows(number) when there is none.
    std::uint32_t next_wanted(std::uint64_t number, std::uint32_t row) const;

  private:
    // Batches that follow one another, and are all made.
    struct Stretch {
        std::uint64_t turn = 0;  // of its first one
        std::uint64_t number = 0;
    };

    std::uint64_t items_;
    std::uint32_t batch_;
    ItemRanges done_;
    std::uint64_t batches_ = 0;
    std::vector<Stretch> made_;  // in order; each ends where the next one begins, the last one with the turns
};

}  // namespace offramp
