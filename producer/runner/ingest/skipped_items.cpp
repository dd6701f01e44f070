#include "producer/runner/ingest/skipped_items.hpp"

#include <algorithm>
#include <utility>

namespace offramp {

std::uint64_t SkippedItems::record(SkippedItem item) {
    const std::lock_guard lock(mutex_);
    ++total_;
    if (!item.whole.empty()) {
        const auto known = of_wholes_.find({item.whole, item.reason});
        if (known != of_wholes_.end()) {
            SkippedItem& first = items_[known->second];
            item.more_alike = first.more_alike + 1;
            if (item.item < first.item)
                first = std::move(item);
            else
                first.more_alike = item.more_alike;
            return total_;
        }
        if (items_.size() < kept_) of_wholes_.emplace(std::pair(item.whole, item.reason), items_.size());
    }
    if (items_.size() < kept_) items_.push_back(std::move(item));
    return total_;
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
