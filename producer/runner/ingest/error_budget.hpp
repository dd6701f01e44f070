#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/app/settings/error_limit.hpp"
#include "common/base/error.hpp"
#include "producer/runner/ingest/skipped_items.hpp"

namespace offramp {

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
    // The error that ends the run: BadInput, with the count and the first reasons.
    Error failure(std::uint64_t failed, std::span<const SkippedItem> first) const;

  private:
    std::string setting_;
    ErrorLimit limit_;
    std::uint64_t items_;
    Of of_;
    Items kind_;
};

}  // namespace offramp
