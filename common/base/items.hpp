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

// Adds one item behind those that are there: the last range grows, or another begins.
void append_item(std::vector<ItemRange>& ranges, std::uint64_t item);

// A set of items, held as the ranges that it consists of: its size is that of its gaps. Thread: one. Blocks: never.
class ItemRanges {
  public:
    // Items that are in the set are not counted again. An empty range adds nothing.
    void add(ItemRange range);

    bool contains(std::uint64_t item) const;
    // The first item, from this one on, that is not in the set.
    std::uint64_t next_missing(std::uint64_t item) const;
    std::uint64_t items() const { return items_; }
    std::size_t ranges() const { return ends_.size(); }
    bool empty() const { return ends_.empty(); }
    // In order; they neither overlap nor touch.
    std::vector<ItemRange> list() const;
    // Takes out the first `most` of list(); the cost is theirs, however many stay.
    std::vector<ItemRange> take_first(std::size_t most);

    bool operator==(const ItemRanges&) const = default;

  private:
    std::map<std::uint64_t, std::uint64_t> ends_;  // by begin
    std::uint64_t items_ = 0;
};

// Parts of a run's input that no item is made of, or that an item lacks. They are counted, never dropped in silence.
struct LeftOut {
    std::string what;  // plural, to be put behind the number: "members that are links"
    std::uint64_t count = 0;
};

}  // namespace offramp
