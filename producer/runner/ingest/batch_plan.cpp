#include "producer/runner/ingest/batch_plan.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/error.hpp"

namespace offramp {

BatchPlan::BatchPlan(std::uint64_t items, std::uint32_t batch, ItemRanges done)
    : items_(items), batch_(batch), done_(std::move(done)) {
    expect(batch > 0, "a batch has at least one row");
    std::uint64_t next = 0;  // the first batch beyond all gaps so far
    const auto make = [&](std::uint64_t begin, std::uint64_t end) {
        if (begin >= end) return;
        const std::uint64_t first = std::max(next, begin / batch);
        next = (end - 1) / batch + 1;
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
