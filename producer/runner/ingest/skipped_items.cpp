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

constexpr std::size_t kReasonsShown = 3;

ErrorLimit parse_limit(std::string_view setting) {
    if (const auto limit = ErrorLimit::parse(setting)) return *limit;
    throw ConfigError("--max-errors '" + std::string(setting) + "' is neither a count nor a percentage",
                      "Give a number of items, as in 25, or a share of them from 0% to 100%, as in 1%");
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

ErrorBudget::ErrorBudget(std::string_view setting, std::uint64_t items, Of of, Items kind)
    : setting_(setting), limit_(parse_limit(setting)), items_(items), of_(of), kind_(kind) {}

RunFailure ErrorBudget::failure(std::uint64_t failed, std::span<const SkippedItem> first) const {
    std::uint64_t listed = 0;
    for (const SkippedItem& item : first) listed += item.stands_for();
    failed = std::max(failed, listed);  // others may have been found meanwhile
    const bool none_read = all_failed(failed);
    const bool unreadable = std::ranges::none_of(first, &SkippedItem::was_read);  // if every one of them is
    const bool refused = std::ranges::all_of(first, &SkippedItem::was_read);
    std::string text;
    if (none_read)
        text = unreadable ? "none of the " + std::to_string(items_) + " items could be read"
                          : "none of the " + std::to_string(items_) + " items has a result";
    else
        text = std::to_string(failed) + " of " + std::to_string(items_) +
               (unreadable ? " items could not be read" : " items had to be skipped") + ", and --max-errors " +
               setting_ + " allows " + std::to_string(limit_.allowed(items_));
    text += ": ";
    const std::size_t shown = std::min(first.size(), kReasonsShown);
    std::uint64_t listed_above = 0;
    for (std::size_t i = 0; i < shown; ++i) {
        text += (i == 0 ? "" : "; ") + first[i].origin + ": " + first[i].reason;
        if (first[i].similar > 0) text += " (and " + std::to_string(first[i].similar) + " more like it)";
        listed_above += first[i].stands_for();
    }
    if (failed > listed_above) text += "; and " + std::to_string(failed - listed_above) + " more";
    const char* const remedy =
        !none_read    ? "Fix them, or allow more (--max-errors 100% skips them all); --resume "
                        "continues from the completed items"
        : !unreadable ? "Check that model, weights and --precision are the intended ones"
        : kind_ == Items::Pictures
            ? "Check that --input is the intended one. Pictures may be JPEG, PNG, TIFF, WebP, BMP or GIF"
            : "Check that --input is the intended one";
    return {{.kind = refused ? FailureCause::Kind::Model : FailureCause::Kind::Input}, text, remedy};
}

}  // namespace offramp
