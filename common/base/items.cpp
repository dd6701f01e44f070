#include "common/base/items.hpp"

#include <algorithm>
#include <iterator>

namespace offramp {

void append_item(std::vector<ItemRange>& ranges, std::uint64_t item) {
    if (!ranges.empty() && ranges.back().end == item)
        ++ranges.back().end;
    else
        ranges.push_back({item, item + 1});
}

void ItemRanges::add(ItemRange range) {
    if (range.begin >= range.end) return;
    auto at = ends_.upper_bound(range.begin);
    if (at != ends_.begin() && std::prev(at)->second >= range.begin) --at;
    // Every range that overlaps or touches becomes part of the new one.
    while (at != ends_.end() && at->first <= range.end) {
        range = {std::min(range.begin, at->first), std::max(range.end, at->second)};
        items_ -= at->second - at->first;
        at = ends_.erase(at);
    }
    ends_.emplace_hint(at, range.begin, range.end);
    items_ += range.end - range.begin;
}

bool ItemRanges::contains(std::uint64_t item) const { return next_missing(item) != item; }

std::uint64_t ItemRanges::next_missing(std::uint64_t item) const {
    const auto behind = ends_.upper_bound(item);
    if (behind == ends_.begin()) return item;
    return std::max(item, std::prev(behind)->second);
}

std::vector<ItemRange> ItemRanges::take_first(std::size_t most) {
    std::vector<ItemRange> taken;
    for (auto at = ends_.begin(); at != ends_.end() && taken.size() < most; at = ends_.erase(at)) {
        taken.push_back({at->first, at->second});
        items_ -= at->second - at->first;
    }
    return taken;
}

std::vector<ItemRange> ItemRanges::list() const {
    std::vector<ItemRange> ranges;
    ranges.reserve(ends_.size());
    for (const auto& [begin, end] : ends_) ranges.push_back({begin, end});
    return ranges;
}

}  // namespace offramp
