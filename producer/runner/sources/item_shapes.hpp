#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace offramp {

// A sample of a model that takes each array of a folder in its own shape.
struct SampleForm {
    std::vector<std::int64_t> shape;  // kVarying where samples differ
    bool is_picture = false;          // [3, height, width]
    bool has_pixels = false;          // a picture's elements are 8-bit; its array may also be [height, width, 3]

    bool operator==(const SampleForm&) const = default;
};

// The shapes of a source's items, which may differ. Thread: any, once filled. Blocks: never.
class ItemShapes {
  public:
    using Shape = std::vector<std::int64_t>;
    // Numbers in an item. More are unreadable: several items are in memory at a time.
    static constexpr std::uint64_t kMostNumbers = std::uint64_t{1} << 30U;

    // `files`: the arrays of a folder, in order. The folder may change later; this list and the shapes belong together.
    explicit ItemShapes(std::vector<std::string> files = {}) : files_(std::move(files)) {}
    ItemShapes(const ItemShapes&) = delete;
    ItemShapes& operator=(const ItemShapes&) = delete;

    const std::vector<std::string>& files() const { return files_; }
    // What a model takes of a folder of arrays.
    const SampleForm& form() const { return form_; }
    void set_form(SampleForm form) { form_ = std::move(form); }

    // Adds the next item.
    void add(const Shape& shape);
    void add_unreadable(const std::string& reason);
    // Empty: it is unreadable.
    const Shape& of(std::uint64_t item) const { return *items_[item]; }
    std::uint64_t items() const { return items_.size(); }
    // The shapes that together have the least and the greatest extents of all items, the largest shape first, except
    // those in `without`. Empty: no other item has a shape.
    std::vector<Shape> extremes(const std::set<Shape>& without = {}) const;
    // The first item of a shape that extremes() returned.
    std::uint64_t first_of(const Shape& shape) const { return known_.at(shape).first_item; }

    // Why the first unreadable item is one.
    const std::string& first_fault() const { return first_fault_; }

    // Errors: UnreadableItem: no numbers, or more than kMostNumbers.
    static void require_size(const Shape& shape);

  private:
    std::vector<std::string> files_;
    SampleForm form_;
    struct Known {
        std::uint64_t first_item = 0;
        std::uint64_t numbers = 0;  // in an item
    };
    std::map<Shape, Known> known_;     // each distinct shape
    std::vector<const Shape*> items_;  // keys of it
    std::string first_fault_;
};

}  // namespace offramp
