#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/slab_header.hpp"
#include "common/wire/slab_layout.hpp"
#include "producer/device/device.hpp"

namespace offramp {

// Impossible scores found on the device while a one-channel output became a class map: one per row, or 0. Valid once
// that work is done. Owns its part of the device's memory, which is reused in the stream's order.
struct RowOutliers {
    std::string output;                    // as describe_output() formats it
    std::shared_ptr<DeviceBuffer> memory;  // float [rows]

    float of(std::size_t row) const { return reinterpret_cast<const float*>(memory->data())[row]; }
};

// The producer's record of one row of a batch, until it is in a slab. SampleEntry (common/wire/slab_view.hpp) is the
// part that consumers get. The reason for an empty row is counted and reported by the producer only.
struct RowInfo {
    std::uint64_t item = 0;
    std::string_view key;         // the source's, which outlives it; empty: the item number serves as the key
    std::string_view metadata{};  // a JSON object that outlives it, or empty
    // the item is unreadable or done: its row is zero before normalisation, and invalid
    bool empty = false;
    bool done = false;   // by an earlier run or producer: empty only because other items need its batch
    std::string reason;  // why the item is unreadable
};

struct OutputBatch;
class SlabWriter;

// Reviews a slab's rows after their copies and before publication, and decides which are valid.
//
// Thread: one at a time, the one that sees copies done. Blocks: never.
class RowReview {
  public:
    virtual ~RowReview() = default;
    // True if the batch's row, now in `slab_row` of `slab`, is valid. Called once per row.
    virtual bool passes(const OutputBatch& batch, std::uint32_t row, SlabWriter& slab, std::uint32_t slab_row) = 0;
    // Called after all rows of a slab. Errors: what ends the run.
    virtual void end_slab() = 0;
};

// The room in a slab for a row of those tensors that vary.
inline std::size_t varying_bytes(std::span<const DeviceTensor> tensors, std::size_t row) {
    std::size_t bytes = 0;
    for (const DeviceTensor& tensor : tensors)
        if (!tensor.samples.empty()) bytes += round_up(tensor.samples[row].bytes, kSampleAlignment);
    return bytes;
}

// How many rows from `first_row`, of at most `rows`, an empty slab takes.
inline std::uint32_t rows_of_a_slab(std::span<const DeviceTensor> tensors, std::uint32_t first_row, std::uint32_t rows,
                                    const SlabLayout& layout) {
    rows = std::min(rows, static_cast<std::uint32_t>(layout.rows));
    if (!layout.varies()) return rows;
    std::vector<std::size_t> bytes;
    for (std::uint32_t row = first_row; row < first_row + rows; ++row) bytes.push_back(varying_bytes(tensors, row));
    return layout.samples_with_room(0, bytes);
}

// A batch's outputs on their way off the device, finished once `computed` is done.
// Owns the tensors' keep-alives; they are dropped once the last copy's event has been seen done.
struct OutputBatch {
    std::uint64_t number = 0;
    std::vector<RowInfo> rows;  // as many as are used of each tensor's dimension 0
    // in the layout's order; none if every row is empty: the slab holds zeros
    std::vector<DeviceTensor> tensors;
    // armed on the producing stream after the work that writes the tensors; null without tensors
    std::shared_ptr<Event> computed;
    std::uint32_t skipped_before = 0;   // items of skipped batches since the previous one
    std::vector<RowOutliers> outliers;  // to be read once `computed` is done
    RowReview* review = nullptr;        // outlives the batch; null: no review

    std::size_t varying_bytes(std::uint32_t row) const { return offramp::varying_bytes(tensors, row); }

    struct Counts {
        std::uint32_t samples = 0;  // without empty rows
        // items; with the first row also those of `skipped_before`
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

    // Calls work(first_row, rows) for parts of at most `most` rows; false as soon as one call returns false.
    template <class Work>
    bool for_each_part(std::int64_t most, Work&& work) const {
        const auto all = static_cast<std::uint32_t>(rows.size());
        const auto step = static_cast<std::uint32_t>(most);
        for (std::uint32_t first = 0; first < all; first += step)
            if (!work(first, std::min(step, all - first))) return false;
        return true;
    }
};

// Waits until the device no longer writes the tensors of a batch that is dropped, so that they may be freed. An error
// is logged.
void release(const OutputBatch& batch) noexcept;

}  // namespace offramp
