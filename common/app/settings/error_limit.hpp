#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace offramp {

// The maximum of unreadable items in a successful run: a number ("25") or a share of all items ("1%", "0.5%"). A share
// is rounded up to whole items: at least one item may be unreadable, unless the share is 0 %.
class ErrorLimit {
  public:
    // Returns nothing if the text is neither.
    static std::optional<ErrorLimit> parse(std::string_view text);

    // True if `unreadable` items of a source with `items` items are too many.
    bool exceeded(std::uint64_t unreadable, std::uint64_t items) const { return unreadable > allowed(items); }
    // The maximum of unreadable items among `items`.
    std::uint64_t allowed(std::uint64_t items) const;

  private:
    ErrorLimit(std::uint64_t count, double percent) : count_(count), percent_(percent) {}

    std::uint64_t count_;
    double percent_;  // of all items, 0 to 100; negative: use count_
};

}  // namespace offramp
