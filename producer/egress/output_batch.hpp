#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "producer/device/device.hpp"
#include "producer/device/device_tensor.hpp"
#include "producer/egress/row_info.hpp"
#include "producer/egress/row_outliers.hpp"

namespace offramp {

struct OutputBatch;
class SlabWriter;

// Looks at the rows of a slab once their copies are done and before anybody gets it, and says which of them mean
// something.
//
// Thread: one at a time, that which sees copies done. Blocks: never.
class RowReview {
  public:
    virtual ~RowReview() = default;
    // Whether a row of the batch means something, which lies in `slab_row` of `slab`; once for each.
    virtual bool passes(const OutputBatch& batch, std::uint32_t row, SlabWriter& slab, std::uint32_t slab_row) = 0;
    // The rows of a slab were looked at. Errors: what ends the run.
    virtual void end_slab() = 0;
};

// A batch's outputs on their way off the device: finished, or still being computed until `computed` is done.
// Owns the tensors' keep-alives; they are dropped once the last copy's event has been seen done.
struct OutputBatch {
    std::uint64_t number = 0;
    std::vector<RowInfo> rows;  // as many as are wanted of each tensor's dimension 0
    // in the order of the layout's; none where every row is empty: the slab has zeros there
    std::vector<DeviceTensor> tensors;
    // armed on the producing stream behind the work that writes the tensors; null without any
    std::shared_ptr<Event> computed;
    std::uint32_t skipped_before = 0;   // items of batches that were left out since the one before it
    std::vector<RowOutliers> outliers;  // for whoever has seen `computed` done
    RowReview* review = nullptr;        // outlives the batch; null: its rows need not be looked at

    struct Counts {
        std::uint32_t samples = 0;  // without empty rows
        // items; with the first row those of `skipped_before` as well
        std::uint32_t skipped = 0;
    };
    Counts count(std::uint32_t first_row, std::uint32_t row_count) const {
        Counts counts{.samples = 0, .skipped = first_row == 0 ? skipped_before : 0};
        for (std::uint32_t row = first_row; row < first_row + row_count; ++row) {
            counts.samples += rows[row].empty ? 0 : 1;
            counts.skipped += rows[row].empty && !rows[row].done ? 1 : 0;
        }
        return counts;
    }

    // Calls work(first_row, rows) for one part of at most `most` rows after another; false as soon as it says so.
    template <class Work>
    bool for_each_part(std::int64_t most, Work&& work) const {
        const auto all = static_cast<std::uint32_t>(rows.size());
        const auto step = static_cast<std::uint32_t>(most);
        for (std::uint32_t first = 0; first < all; first += step)
            if (!work(first, std::min(step, all - first))) return false;
        return true;
    }
};

}  // namespace offramp
