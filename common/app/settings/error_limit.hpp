#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace offramp {

// The maximum of unreadable items in a run that succeeds: a number ("25") or a share of all items ("1%",
// "0.5%"). A share is rounded up to whole items: of a few items one may be unreadable, unless it is 0 %.
class ErrorLimit {
  public:
    // Nothing when the text is neither.
    static std::optional<ErrorLimit> parse(std::string_view text);

    // True when so many unreadable items of a source with `items` items are too many.
    bool exceeded(std::uint64_t unreadable, std::uint64_t items) const { return unreadable > allowed(items); }
    // How many of so many items may be unreadable.
    std::uint64_t allowed(std::uint64_t items) const;

  private:
    ErrorLimit(std::uint64_t count, double percent) : count_(count), percent_(percent) {}

    std::uint64_t count_;
    double percent_;  // of the items, 0 to 100; negative: count_ decides
};

}  // namespace offramp
