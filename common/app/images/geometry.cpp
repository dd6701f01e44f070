#include "common/app/images/geometry.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "common/base/error.hpp"

namespace offramp {
namespace {

// Half of the remaining pixels; a half is rounded to the even number, like in Python.
std::uint64_t margin(std::uint64_t whole, std::uint32_t cut) {
    expect(cut <= whole, "a frame is inside its picture");
    const std::uint64_t half = (whole - cut) / 2;
    return (whole - cut) % 2 == 0 ? half : half + half % 2;
}

struct Stretch {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
};

// The pixels among `full` that correspond to resized pixels [first, first + count).
Stretch visible_range(std::uint64_t first, std::uint32_t count, std::uint64_t resized, std::uint32_t full) {
    const double scale = static_cast<double>(full) / static_cast<double>(resized);
    const auto at = [&](std::uint64_t position) {
        return static_cast<std::uint32_t>(std::lround(static_cast<double>(position) * scale));
    };
    const std::uint32_t begin = std::min(at(first), full - 1);
    return {.first = begin, .count = std::max(std::min(at(first + count), full), begin + 1) - begin};
}

std::uint32_t tiles_of(std::uint32_t length, TileSize size) {
    if (length <= size.tile) return 1;
    const std::uint32_t step = size.tile - size.overlap;
    return (length - size.overlap + step - 1) / step;
}

// Removes a number and the character `mark` after it from the text. `mark` 0: the text must end after the number.
std::optional<std::uint32_t> take_number(std::string_view& text, char mark) {
    std::uint32_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [next, problem] = std::from_chars(text.data(), end, number);
    if (problem != std::errc() || (mark == 0 ? next != end : next == end || *next != mark)) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(next - text.data()) + (mark == 0 ? 0 : 1));
    return number;
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

TileAxis::TileAxis(std::uint32_t length, TileSize size) : length_(length), size_(size) {
    expect(length > 0 && size.tile > 0 && 2 * std::uint64_t{size.overlap} < size.tile,
           "a side has pixels, and an overlap is less than half a tile");
    tiles_ = tiles_of(length, size);
}

std::uint32_t TileAxis::first_shown(std::uint32_t tile) const {
    return length_ <= size_.tile ? 0 : std::min(begin_of(tile), length_ - size_.tile);
}

PixelSpan TileAxis::cell(std::uint32_t cell) const {
    const std::uint32_t tile = cell / 2;
    if (cell % 2 == 1) return {begin_of(tile + 1), begin_of(tile + 1) + size_.overlap};
    return {tile == 0 ? 0 : begin_of(tile) + size_.overlap, tile + 1 == tiles_ ? length_ : begin_of(tile + 1)};
}

PixelSpan TileAxis::share(std::uint32_t tile) const {
    const std::uint32_t half = size_.overlap / 2;
    return {tile == 0 ? 0 : begin_of(tile) + half, tile + 1 == tiles_ ? length_ : begin_of(tile + 1) + half};
}

std::string tile_key(const TileOfPicture& tile) {
    return std::string(tile.picture) + "#" + std::to_string(tile.size.width) + "x" + std::to_string(tile.size.height) +
           "@" + std::to_string(tile.row) + "," + std::to_string(tile.column);
}

std::optional<TileOfPicture> tile_of_key(std::string_view key, TileSize size) {
    const std::size_t mark = key.rfind('#');
    if (mark == std::string_view::npos || mark == 0) return std::nullopt;
    std::string_view place = key.substr(mark + 1);
    const auto width = take_number(place, 'x');
    const auto height = width ? take_number(place, '@') : std::nullopt;
    const auto row = height ? take_number(place, ',') : std::nullopt;
    const auto column = row ? take_number(place, 0) : std::nullopt;
    if (!column || *width == 0 || *height == 0) return std::nullopt;
    const ImageSize picture{*width, *height};
    if (picture.pixels() > kMostTiledPixels) return std::nullopt;
    const Tiling tiling(picture, size);
    if (*row >= tiling.down().tiles() || *column >= tiling.across().tiles()) return std::nullopt;
    return TileOfPicture{.picture = key.substr(0, mark), .size = picture, .row = *row, .column = *column};
}

}  // namespace offramp
