#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/app/settings/parsed_values.hpp"
#include "producer/runner/models/run_failure.hpp"

namespace offramp {

// An item without a result, and why: it was unreadable, or failed later.
struct SkippedItem {
    std::uint64_t item = 0;
    std::string origin;
    std::string reason;
    bool was_read = false;
    std::string whole;            // the larger item, such as the picture of a tile; empty: none
    std::uint64_t similar = 0;    // further parts of that whole, skipped for the same reason, that this one represents
    std::uint64_t last_item = 0;  // the last of the further parts, and its origin, if there are any
    std::string last_origin = {};

    std::uint64_t stands_for() const { return 1 + similar; }  // items
};

// Collects skipped items: counts all, keeps a limited number. Parts of one whole with the same reason are kept as one
// entry, so that a damaged picture of many tiles does not displace others. Thread: any.
class SkippedItems {
  public:
    static constexpr std::size_t kKept = 10'000;

    // `before`: already counted by an earlier producer, and not listed.
    explicit SkippedItems(std::size_t kept = kKept, std::uint64_t before = 0)
        : kept_(kept), before_(before), total_(before) {}

    // Returns the number of skipped items, including this one.
    std::uint64_t record(SkippedItem item);
    std::uint64_t total() const;
    // The entries kept, by item; for several similar parts, the first.
    std::vector<SkippedItem> list() const;
    // True if the entries represent all items that this producer skipped.
    bool lists_all() const;

  private:
    const std::size_t kept_;
    const std::uint64_t before_;
    mutable std::mutex mutex_;
    std::uint64_t total_;
    std::uint64_t listed_ = 0;  // represented by items_
    std::vector<SkippedItem> items_;
    std::map<std::pair<std::string, std::string>, std::size_t> of_wholes_;  // by whole and reason: index in items_
};

// Decides when skipped items fail a run. "25": more than 25 items; "1%": more than 1 % of all items, counted against
// the whole input from the first item on, so that a run ends as soon as no later item can save it; "100%": never.
// Regardless of the setting, a run without any result has failed; for a part of a run's items, the whole decides that.
// Pure.
class ErrorBudget {
  public:
    enum class Of { Whole, Part };
    enum class Items { Any, Pictures };
    // Errors: ConfigError when `setting` is neither a number nor a percentage from 0 to 100.
    ErrorBudget(std::string_view setting, std::uint64_t items, Of of = Of::Whole, Items kind = Items::Any);

    bool exceeded_by(std::uint64_t failed) const { return limit_.exceeded(failed, items_); }
    bool all_failed(std::uint64_t failed) const { return of_ == Of::Whole && items_ > 0 && failed >= items_; }
    // The error that ends the run, with the count and the first reasons.
    RunFailure failure(std::uint64_t failed, std::span<const SkippedItem> first) const;

  private:
    std::string setting_;
    ErrorLimit limit_;
    std::uint64_t items_;
    Of of_;
    Items kind_;
};

}  // namespace offramp
