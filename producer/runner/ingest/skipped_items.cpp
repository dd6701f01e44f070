#include "producer/runner/ingest/skipped_items.hpp"

#include <algorithm>
#include <utility>

namespace offramp {

std::uint64_t SkippedItems::record(SkippedItem item) {
    const std::lock_guard lock(mutex_);
    if (items_.size() < kept_) items_.push_back(std::move(item));
    return ++total_;
}

std::uint64_t SkippedItems::total() const {
    const std::lock_guard lock(mutex_);
    return total_;
}

std::vector<SkippedItem> SkippedItems::list() const {
    std::vector<SkippedItem> sorted;
    {
        const std::lock_guard lock(mutex_);
        sorted = items_;
    }
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.item < b.item; });
    return sorted;
}

}  // namespace offramp
