#include "producer/pipeline/staging.hpp"

#include <algorithm>
#include <utility>

#include "common/base/error.hpp"

namespace offramp {

StagingWindow::StagingWindow(Device& device, const Shape& shape, const Clock& clock)
    : shape_(shape),
      clock_(clock),
      slots_(shape.batches),
      next_item_(shape.first_batch * shape.batch),
      taken_(shape.first_batch),
      recycled_(shape.first_batch) {
    expect(shape.row_bytes > 0 && shape.batch > 0 && shape.batches > 0,
           "a staging window holds at least one row");
    for (Slot& slot : slots_)
        slot.memory = device.allocate_pinned_host(shape.row_bytes * shape.batch, "a batch of staged input");
}

std::uint32_t StagingWindow::rows_of(std::uint64_t batch) const {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(shape_.batch, shape_.items - batch * shape_.batch));
}

std::optional<StagingWindow::Claim> StagingWindow::claim() {
    std::unique_lock lock(mutex_);
    wait_booked(window_moved_, lock, claim_blocked_, clock_,
                [this] { return closed_ || next_item_ >= shape_.items || window_has(next_item_); });
    if (closed_ || next_item_ >= shape_.items) return std::nullopt;
    const std::uint64_t item = next_item_++;
    const std::uint64_t row = item % shape_.batch;
    Slot& slot = slot_of(item / shape_.batch);
    if (row == 0) {
        slot.missing = rows_of(item / shape_.batch);
        slot.rows.assign(slot.missing, {});
    }
    return Claim{item, {slot.memory->data() + row * shape_.row_bytes, shape_.row_bytes}};
}

void StagingWindow::done(RowInfo row) {
    bool complete = false;
    {
        const std::lock_guard lock(mutex_);
        Slot& slot = slot_of(row.item / shape_.batch);
        RowInfo& place = slot.rows[row.item % shape_.batch];
        place = std::move(row);
        complete = --slot.missing == 0;
    }
    if (complete) batch_complete_.notify_one();
}

std::optional<StagingWindow::Batch> StagingWindow::take_complete() {
    std::unique_lock lock(mutex_);
    if (taken_ * shape_.batch >= shape_.items) return std::nullopt;
    Slot& slot = slot_of(taken_);
    const auto complete = [&] {
        const std::uint64_t last_item = taken_ * shape_.batch + rows_of(taken_) - 1;
        return window_has(last_item) && next_item_ > last_item && slot.missing == 0;
    };
    wait_booked(batch_complete_, lock, complete_blocked_, clock_, [&] { return closed_ || complete(); });
    if (closed_) return std::nullopt;
    return Batch{taken_++, std::move(slot.rows), {slot.memory->data(), slot.memory->bytes()}};
}

void StagingWindow::recycle() {
    {
        const std::lock_guard lock(mutex_);
        expect(recycled_ < taken_, "a batch is taken before it is recycled");
        ++recycled_;
    }
    window_moved_.notify_all();
}

void StagingWindow::close() {
    {
        const std::lock_guard lock(mutex_);
        closed_ = true;
    }
    window_moved_.notify_all();
    batch_complete_.notify_all();
}

double StagingWindow::claim_blocked_seconds() const {
    const std::lock_guard lock(mutex_);
    return claim_blocked_.seconds(clock_.now());
}

double StagingWindow::complete_blocked_seconds() const {
    const std::lock_guard lock(mutex_);
    return complete_blocked_.seconds(clock_.now());
}

std::int64_t StagingWindow::waiting_to_claim() const {
    const std::lock_guard lock(mutex_);
    return claim_blocked_.waiting();
}

}  // namespace offramp
