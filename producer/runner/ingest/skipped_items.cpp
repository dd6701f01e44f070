#include "producer/runner/ingest/skipped_items.hpp"

#include <algorithm>
#include <utility>

namespace offramp {

namespace {

// Adds one more item to those that `entry` represents.
void add_similar(SkippedItem& entry, SkippedItem item) {
    if (entry.similar == 0) {
        entry.last_item = entry.item;
        entry.last_origin = entry.origin;
    }
    ++entry.similar;
    if (item.item > entry.last_item) {
        entry.last_item = item.item;
        entry.last_origin = item.origin;
    }
    if (item.item < entry.item) {
        entry.item = item.item;
        entry.origin = std::move(item.origin);
    }
}

}  // namespace

std::uint64_t SkippedItems::record(SkippedItem item) {
    const std::lock_guard lock(mutex_);
    ++total_;
    if (!item.whole.empty()) {
        const auto known = of_wholes_.find({item.whole, item.reason});
        if (known != of_wholes_.end()) {
            add_similar(items_[known->second], std::move(item));
            ++listed_;
            return total_;
        }
        if (items_.size() < kept_) of_wholes_.emplace(std::pair(item.whole, item.reason), items_.size());
    }
    if (items_.size() < kept_) {
        items_.push_back(std::move(item));
        ++listed_;
    }
    return total_;
}

std::uint64_t SkippedItems::total() const {
    const std::lock_guard lock(mutex_);
    return total_;
}

bool SkippedItems::lists_all() const {
    const std::lock_guard lock(mutex_);
    return before_ + listed_ == total_;
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
