#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace offramp {

// The shapes of a source's items, which may differ. Thread: any, once filled. Blocks: never.
class ItemShapes {
  public:
    using Shape = std::vector<std::int64_t>;
    // Numbers in an item. More are unreadable: several items are in memory at a time.
    static constexpr std::uint64_t kMostNumbers = std::uint64_t{1} << 30U;

    // `files`: of a folder of arrays, in order. The folder may change later; this list and the shapes belong together.
    explicit ItemShapes(std::vector<std::string> files = {}) : files_(std::move(files)) {}
    ItemShapes(const ItemShapes&) = delete;
    ItemShapes& operator=(const ItemShapes&) = delete;

    const std::vector<std::string>& files() const { return files_; }

    // Adds the next item.
    void add(const Shape& shape);
    void add_unreadable(const std::string& reason);
    // Empty: it is unreadable.
    const Shape& of(std::uint64_t item) const { return *items_[item]; }
    std::uint64_t items() const { return items_.size(); }
    // The shapes that together have the least and the greatest extents of all items, the largest shape first. Empty: no
    // item has a shape.
    std::vector<Shape> extremes() const;

    // Why the first unreadable item is one.
    const std::string& first_fault() const { return first_fault_; }

    // Errors: UnreadableItem: no numbers, or more than kMostNumbers.
    static void require_size(const Shape& shape);

  private:
    std::vector<std::string> files_;
    std::map<Shape, std::uint64_t> numbers_;  // each distinct shape, and its numbers
    std::vector<const Shape*> items_;         // keys of it
    std::string first_fault_;
};

}  // namespace offramp
