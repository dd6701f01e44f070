#include "producer/runner/sources/item_shapes.hpp"

#include <algorithm>

#include "common/app/images/unreadable_item.hpp"
#include "common/wire/shape_text.hpp"

namespace offramp {
namespace {

// Nothing beyond `most`.
std::uint64_t numbers_in(const ItemShapes::Shape& shape, std::uint64_t most) {
    std::uint64_t numbers = 1;
    for (const std::int64_t extent : shape) {
        const auto side = static_cast<std::uint64_t>(extent);
        if (side == 0) return 0;
        if (numbers > most / side) return most + 1;
        numbers *= side;
    }
    return numbers;
}

}  // namespace

void ItemShapes::require_size(const Shape& shape) {
    const std::uint64_t numbers = numbers_in(shape, kMostNumbers);
    if (numbers == 0) throw UnreadableItem("a shape of " + shape_text(shape) + " has no elements");
    if (numbers > kMostNumbers)
        throw UnreadableItem("a shape of " + shape_text(shape) + " is too large: at most " +
                             std::to_string(kMostNumbers) + " numbers are computed at a time");
}

void ItemShapes::add(const Shape& shape) {
    const auto [known, added] = known_.try_emplace(shape);
    if (added) known->second = {.first_item = items_.size(), .numbers = numbers_in(shape, kMostNumbers)};
    items_.push_back(&known->first);
}

void ItemShapes::add_unreadable(const std::string& reason) {
    if (first_fault_.empty()) first_fault_ = reason;
    add({});
}

std::vector<ItemShapes::Shape> ItemShapes::extremes(const std::set<Shape>& without) const {
    std::vector<const Shape*> shapes;
    for (const auto& [shape, unused] : known_)
        if (!shape.empty() && !without.contains(shape)) shapes.push_back(&shape);
    if (shapes.empty()) return {};
    const Shape& largest =
        **std::ranges::max_element(shapes, {}, [this](const Shape* shape) { return known_.at(*shape).numbers; });
    std::vector<Shape> found{largest};
    const auto keep = [&found](const Shape& shape) {
        if (std::ranges::find(found, shape) == found.end()) found.push_back(shape);
    };
    for (std::size_t dim = 0; dim < largest.size(); ++dim) {
        const Shape *least = &largest, *greatest = least;
        for (const Shape* const shape : shapes) {
            if ((*shape)[dim] < (*least)[dim]) least = shape;
            if ((*shape)[dim] > (*greatest)[dim]) greatest = shape;
        }
        keep(*least);
        keep(*greatest);
    }
    return found;
}

}  // namespace offramp
