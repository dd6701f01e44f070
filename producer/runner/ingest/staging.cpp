#include "producer/runner/ingest/staging.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr std::size_t kKeptFileBytes = std::size_t{4} << 20;  // of a picture, for the row's next one

}  // namespace

StagingWindow::StagingWindow(Device& device, const Shape& shape, const Clock& clock)
    : shape_(shape), clock_(clock), slots_(shape.batches) {
    expect(shape.row_bytes > 0 && shape.batch > 0 && shape.batches > 0 && shape.plan != nullptr,
           "a staging window holds at least one row of a plan");
    for (Slot& slot : slots_) {
        slot.memory = device.allocate_pinned_host(shape.row_bytes * shape.batch, "a batch of staged input");
    }
}

void StagingWindow::begin_slot(Slot& slot, std::uint64_t number) const {
    const BatchPlan& plan = *shape_.plan;
    slot.number = number;
    slot.row_bytes = shape_.row_bytes_of ? shape_.row_bytes_of(number) : shape_.row_bytes;
    slot.rows.assign(plan.rows(number), {});
    slot.missing = shape_.rows == Rows::All ? plan.rows(number) : plan.wanted_rows(number);
    if (shape_.for_gpu_decoder) slot.encoded.resize(plan.rows(number));
    for (EncodedPicture& encoded : slot.encoded) {
        encoded.file.clear();
        if (encoded.file.capacity() > kKeptFileBytes) encoded.file = {};
    }
    if (slot.missing == slot.rows.size()) return;
    for (std::size_t row = 0; row < slot.rows.size(); ++row) {
        const std::uint64_t item = plan.first_item(number) + row;
        const bool done = plan.is_done(item);
        slot.rows[row] = {.item = item, .key = {}, .empty = done, .done = done, .reason = {}};
    }
}

std::optional<StagingWindow::Claim> StagingWindow::claim() {
    const BatchPlan& plan = *shape_.plan;
    std::unique_lock lock(mutex_);
    wait_booked(window_moved_, lock, claim_blocked_, clock_,
                [&] { return closed_ || claiming_ >= plan.batches() || window_has(claiming_); });
    if (closed_ || claiming_ >= plan.batches()) return std::nullopt;
    const std::uint64_t number = plan.number(claiming_);
    Slot& slot = slot_of(claiming_);
    if (next_row_ == 0) {
        begin_slot(slot, number);
        next_row_ = shape_.rows == Rows::All ? 0 : plan.next_wanted(number, 0);
    }
    const std::uint32_t row = next_row_;
    next_row_ = shape_.rows == Rows::All ? row + 1 : plan.next_wanted(number, row + 1);
    if (next_row_ >= plan.rows(number)) {
        ++claiming_;
        next_row_ = 0;
    }
    return Claim{.item = plan.first_item(number) + row,
                 .row = {slot.memory->data() + row * slot.row_bytes, slot.row_bytes},
                 .encoded = slot.encoded.empty() ? nullptr : &slot.encoded[row]};
}

// The slot of an item that was handed out and whose batch is not taken yet.
StagingWindow::Slot& StagingWindow::slot_of_item(std::uint64_t item) {
    const std::uint64_t number = shape_.plan->number_of(item);
    for (std::uint64_t turn = taken_; turn < recycled_ + slots_.size(); ++turn)
        if (slot_of(turn).number == number && slot_of(turn).missing > 0) return slot_of(turn);
    expect(false, "a row that is filled belongs to a batch of the window");
    return slots_.front();
}

void StagingWindow::done(RowInfo row) {
    bool complete = false;
    {
        const std::lock_guard lock(mutex_);
        Slot& slot = slot_of_item(row.item);
        RowInfo& place = slot.rows[row.item - shape_.plan->first_item(slot.number)];
        place = std::move(row);
        complete = --slot.missing == 0;
    }
    if (complete) batch_complete_.notify_one();
}

std::optional<StagingWindow::Batch> StagingWindow::take_complete() {
    std::unique_lock lock(mutex_);
    if (taken_ >= shape_.plan->batches()) return std::nullopt;
    Slot& slot = slot_of(taken_);
    batch_complete_.wait(lock, [&] { return closed_ || (claiming_ > taken_ && slot.missing == 0); });
    if (closed_) return std::nullopt;
    ++taken_;
    return Batch{.number = slot.number,
                 .rows = std::move(slot.rows),
                 .memory = {slot.memory->data(), slot.memory->bytes()},
                 .encoded = slot.encoded};
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

std::int64_t StagingWindow::waiting_to_claim() const {
    const std::lock_guard lock(mutex_);
    return claim_blocked_.waiting();
}

BatchPlan::BatchPlan(std::uint64_t items, std::uint32_t batch, ItemRanges done, std::vector<std::uint64_t> starts)
    : items_(items), batch_(batch), done_(std::move(done)), starts_(std::move(starts)) {
    expect(batch > 0, "a batch has at least one row");
    expect(starts_.empty() || starts_.front() == 0, "the first batch begins with the first item");
    std::uint64_t next = 0;  // the first batch beyond all gaps so far
    const auto make = [&](std::uint64_t begin, std::uint64_t end) {
        if (begin >= end) return;
        const std::uint64_t first = std::max(next, number_of(begin));
        next = number_of(end - 1) + 1;
        if (first >= next) return;
        made_.push_back({batches_, first});
        batches_ += next - first;
    };
    std::uint64_t begin = 0;
    for (const ItemRange& range : done_.list()) {
        make(begin, std::min(range.begin, items));
        begin = range.end;
    }
    make(begin, items);
}

std::uint64_t BatchPlan::number(std::uint64_t turn) const {
    expect(turn < batches_, "a turn is that of a batch");
    const auto behind = std::upper_bound(made_.begin(), made_.end(), turn,
                                         [](std::uint64_t each, const Stretch& made) { return each < made.turn; });
    const Stretch& made = *std::prev(behind);
    return made.number + (turn - made.turn);
}

std::uint64_t BatchPlan::number_of(std::uint64_t item) const {
    if (starts_.empty()) return item / batch_;
    return static_cast<std::uint64_t>(std::ranges::upper_bound(starts_, item) - starts_.begin()) - 1;
}

std::uint32_t BatchPlan::rows(std::uint64_t number) const {
    const bool is_last = number + 1 >= starts_.size();
    const std::uint64_t end = starts_.empty() || is_last ? items_ : starts_[number + 1];
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(batch_, end - first_item(number)));
}

std::uint32_t BatchPlan::wanted_rows(std::uint64_t number) const {
    if (done_.empty()) return rows(number);
    std::uint32_t wanted = 0;
    for (std::uint32_t row = next_wanted(number, 0); row < rows(number); row = next_wanted(number, row + 1)) ++wanted;
    return wanted;
}

std::uint32_t BatchPlan::next_wanted(std::uint64_t number, std::uint32_t row) const {
    if (done_.empty() || row >= rows(number)) return std::min(row, rows(number));
    const std::uint64_t first = first_item(number);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(done_.next_missing(first + row) - first, rows(number)));
}

}  // namespace offramp
