#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace offramp {

// The items [begin, end) of a source.
struct ItemRange {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;

    bool operator==(const ItemRange&) const = default;
};

// Appends one item: extends the last range, or begins another.
void append_item(std::vector<ItemRange>& ranges, std::uint64_t item);

// A set of items, stored as ranges. Its memory grows with the number of gaps. Thread: one. Blocks: never.
class ItemRanges {
  public:
    // Does not count items again that are in the set. An empty range adds nothing.
    void add(ItemRange range);

    bool contains(std::uint64_t item) const;
    // The first item at or after `item` that is not in the set.
    std::uint64_t next_missing(std::uint64_t item) const;
    std::uint64_t items() const { return items_; }
    std::size_t ranges() const { return ends_.size(); }
    bool empty() const { return ends_.empty(); }
    // The ranges in order; they neither overlap nor touch.
    std::vector<ItemRange> list() const;
    // Removes and returns the first `most` ranges of list(). The cost does not depend on the remaining ranges.
    std::vector<ItemRange> take_first(std::size_t most);

    bool operator==(const ItemRanges&) const = default;

  private:
    std::map<std::uint64_t, std::uint64_t> ends_;  // range ends, by begin
    std::uint64_t items_ = 0;
};

// Parts of a run's input that belong to no item, or that an item lacks. They are counted, never dropped silently.
struct LeftOut {
    std::string what;  // plural noun that follows the number: "members that are links"
    std::uint64_t count = 0;
};

}  // namespace offramp
