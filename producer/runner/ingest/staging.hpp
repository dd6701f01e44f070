#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "common/app/images/encoded_picture.hpp"
#include "common/base/blocked_time.hpp"
#include "common/base/items.hpp"
#include "producer/device/device.hpp"
#include "producer/runner/ingest/input_batch.hpp"

namespace offramp {

// Selects the batches of a source to make, and their rows. Batch k is always the items [k*batch, (k+1)*batch), or, with
// `starts`, those from starts[k] up to the next start. A row
// whose item is completed, or outside this run's share, stays empty in place; a batch of only such rows is left out. So
// a sample's place in its batch, and with it the exact bits of the model's result, is the same as in an undisturbed
// run. Thread: any, once made. Blocks: never. Memory: 16 bytes per gap in `done`.
class BatchPlan {
  public:
    // `starts`: the first item of each batch, from 0; empty: every `batch` items.
    BatchPlan(std::uint64_t items, std::uint32_t batch, ItemRanges done = {}, std::vector<std::uint64_t> starts = {});

    // The number of batches to make; each has at least one wanted row.
    std::uint64_t batches() const { return batches_; }
    // The number of the batch made as the `turn`th, from 0.
    std::uint64_t number(std::uint64_t turn) const;
    std::uint64_t first_item(std::uint64_t number) const { return starts_.empty() ? number * batch_ : starts_[number]; }
    // The number of the batch of an item.
    std::uint64_t number_of(std::uint64_t item) const;
    // The last batch of the source may have fewer rows than a full one.
    std::uint32_t rows(std::uint64_t number) const;
    bool is_done(std::uint64_t item) const { return !done_.empty() && done_.contains(item); }
    // Rows of a batch that are not completed yet.
    std::uint32_t wanted_rows(std::uint64_t number) const;
    // The first row of a batch, from `row` on, that is not completed yet; rows(number) when there is none.
    std::uint32_t next_wanted(std::uint64_t number, std::uint32_t row) const;

  private:
    // Consecutive batches, all to be made.
    struct Stretch {
        std::uint64_t turn = 0;  // turn of the first batch
        std::uint64_t number = 0;
    };

    std::uint64_t items_;
    std::uint32_t batch_;
    ItemRanges done_;
    std::vector<std::uint64_t> starts_;
    std::uint64_t batches_ = 0;
    std::vector<Stretch> made_;  // in order; each stretch ends where the next begins, the last with the final turn
};

// Page-locked buffers that decode workers fill row by row, a window of batches at a time, in the order of the plan.
// Rows of all batches in the window are given out in the order of their items: no worker is idle while a batch's last
// row is still being read.
//
//   claim ─▶ fill ─▶ done        by workers, any row
//   take_complete ─▶ upload ─▶ recycle    by one thread, whole batches, in order
//
// Owns the buffers, all allocated up front. Borrows device and clock. Thread: claim(), done(): any; take_complete(),
// recycle(): one. Blocks: claim() while the window is full, take_complete() while the next batch lacks a row.
class StagingWindow {
  public:
    // Which rows of a batch to fill.
    enum class Rows { Wanted, All };
    struct Shape {
        std::size_t row_bytes = 0;
        std::uint32_t batch = 1;          // rows of a full batch
        std::uint32_t batches = 1;        // of the window
        const BatchPlan* plan = nullptr;  // outlives the window
        Rows rows = Rows::Wanted;
        // Of batches that differ: bytes of a row of the batch with this number. `row_bytes` * `batch` holds any of
        // them.
        std::function<std::size_t(std::uint64_t number)> row_bytes_of{};
        bool for_gpu_decoder = false;  // a row may instead be filled with a picture's file
    };
    struct Claim {
        std::uint64_t item = 0;
        std::span<std::byte> row;
        EncodedPicture* encoded = nullptr;  // instead of the row, for a decoder on the GPU; null: there is none
    };
    struct Batch {
        std::uint64_t number = 0;
        std::vector<RowInfo> rows;    // the last batch may have fewer; rows completed earlier were never handed out
        std::span<std::byte> memory;  // room for a full batch
        std::span<EncodedPicture> encoded{};  // of each row, if there is a decoder on the GPU
    };

    StagingWindow(Device& device, const Shape& shape, const Clock& clock);

    // The next row to fill. Nothing: all were given out, or the window is closed.
    std::optional<Claim> claim();
    // Reports that the claimed row is filled, described by `row`.
    void done(RowInfo row);
    // The next batch, complete. Nothing: there is none left, or the window is closed.
    std::optional<Batch> take_complete();
    // Returns the buffer of the oldest batch taken, once it is no longer read. It may then be filled again.
    void recycle();
    // Ends all waiting, permanently.
    void close();

    std::int64_t waiting_to_claim() const;

  private:
    struct Slot {
        std::unique_ptr<DeviceBuffer> memory;
        std::uint64_t number = 0;   // the batch's number
        std::size_t row_bytes = 0;  // of the batch
        std::vector<RowInfo> rows;
        std::uint32_t missing = 0;
        std::vector<EncodedPicture> encoded;
    };

    Slot& slot_of(std::uint64_t turn) { return slots_[turn % slots_.size()]; }
    Slot& slot_of_item(std::uint64_t item);
    bool window_has(std::uint64_t turn) const { return turn < recycled_ + slots_.size(); }
    void begin_slot(Slot& slot, std::uint64_t number) const;

    const Shape shape_;
    const Clock& clock_;
    mutable std::mutex mutex_;
    std::condition_variable window_moved_, batch_complete_;
    std::vector<Slot> slots_;
    // Batches are counted by their turn in the plan.
    std::uint64_t claiming_ = 0;  // the batch whose rows are given out
    std::uint32_t next_row_ = 0;  // in that batch; 0: none of its rows was handed out
    std::uint64_t taken_ = 0;
    std::uint64_t recycled_ = 0;
    bool closed_ = false;
    BlockedTime claim_blocked_;
};

}  // namespace offramp
