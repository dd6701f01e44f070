#include "common/app/images/geometry.hpp"

#include <algorithm>
#include <cmath>

#include "common/base/error.hpp"

namespace offramp {
namespace {

// Half of what is left over; a half pixel goes to the even number, as Python rounds.
std::uint64_t margin(std::uint64_t whole, std::uint32_t cut) {
    expect(cut <= whole, "a frame is inside its picture");
    const std::uint64_t half = (whole - cut) / 2;
    return (whole - cut) % 2 == 0 ? half : half + half % 2;
}

struct Stretch {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
};

// The pixels of `full` that became `count` of `resized` from `first` on.
Stretch visible_range(std::uint64_t first, std::uint32_t count, std::uint64_t resized, std::uint32_t full) {
    const double scale = static_cast<double>(full) / static_cast<double>(resized);
    const auto at = [&](std::uint64_t position) {
        return static_cast<std::uint32_t>(std::lround(static_cast<double>(position) * scale));
    };
    const std::uint32_t begin = std::min(at(first), full - 1);
    return {.first = begin, .count = std::max(std::min(at(first + count), full), begin + 1) - begin};
}

}  // namespace

ResizedPart PictureFrame::part_of(ImageSize picture) const {
    if (shorter_side == 0) return {.width = size.width, .height = size.height};
    expect(picture.pixels() > 0, "a picture has pixels");
    const auto [shorter, longer] = std::minmax(picture.width, picture.height);
    const std::uint64_t long_side = std::uint64_t{shorter_side} * longer / shorter;
    const bool upright = picture.width <= picture.height;
    ResizedPart part{.width = upright ? shorter_side : long_side, .height = upright ? long_side : shorter_side};
    part.left = margin(part.width, size.width);
    part.top = margin(part.height, size.height);
    return part;
}

PictureRect PictureFrame::visible_rect(ImageSize picture) const {
    if (shorter_side == 0) return {.size = picture};
    const ResizedPart part = part_of(picture);
    const Stretch across = visible_range(part.left, size.width, part.width, picture.width);
    const Stretch down = visible_range(part.top, size.height, part.height, picture.height);
    return {.left = across.first, .top = down.first, .size = {across.count, down.count}};
}

}  // namespace offramp
