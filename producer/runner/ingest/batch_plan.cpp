#include "producer/runner/ingest/batch_plan.hpp"

#include <algorithm>
#include <utility>

#include "common/base/error.hpp"

namespace offramp {

BatchPlan::BatchPlan(std::uint64_t items, std::uint32_t batch, ItemRanges done)
    : items_(items), batch_(batch), done_(std::move(done)) {
    expect(batch > 0, "a batch has at least one row");
    batches_ = items / batch + (items % batch != 0 ? 1 : 0);
    if (done_.empty()) return;
    for (std::uint64_t item = done_.next_missing(0); item < items;) {
        const std::uint64_t number = item / batch;
        numbers_.push_back(number);
        const std::uint64_t next = number + 1;
        if (next >= batches_) break;
        item = done_.next_missing(next * batch);
    }
    batches_ = numbers_.size();
}

std::uint32_t BatchPlan::rows(std::uint64_t number) const {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(batch_, items_ - number * batch_));
}

std::uint32_t BatchPlan::wanted_rows(std::uint64_t number) const {
    if (done_.empty()) return rows(number);
    std::uint32_t wanted = 0;
    for (std::uint32_t row = next_wanted(number, 0); row < rows(number); row = next_wanted(number, row + 1)) ++wanted;
    return wanted;
}

std::uint32_t BatchPlan::next_wanted(std::uint64_t number, std::uint32_t row) const {
    if (done_.empty() || row >= rows(number)) return std::min(row, rows(number));
    const std::uint64_t first = number * batch_;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(done_.next_missing(first + row) - first, rows(number)));
}

}  // namespace offramp
