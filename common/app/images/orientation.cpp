#include "common/app/images/orientation.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "common/app/images/image_format.hpp"
#include "common/app/images/jpeg.hpp"

namespace offramp {
namespace {

using namespace std::string_view_literals;

// Reads numbers of a TIFF structure in its byte order; nothing for a position outside.
class TiffNumbers {
  public:
    TiffNumbers(std::span<const std::byte> tiff, bool big_endian) : tiff_(tiff), big_endian_(big_endian) {}

    std::optional<std::uint32_t> at(std::size_t offset, std::size_t bytes) const {
        if (offset > tiff_.size() || bytes > tiff_.size() - offset) return std::nullopt;
        return big_endian_ ? big_endian_at(tiff_, offset, bytes) : little_endian_at(tiff_, offset, bytes);
    }

  private:
    std::span<const std::byte> tiff_;
    bool big_endian_;
};

bool begins_with(std::span<const std::byte> bytes, std::string_view text) {
    return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

bool changes_sides(Orientation orientation) { return orientation >= Orientation::Transpose; }

template <std::ptrdiff_t kPixel>
void bring_pixels_upright(const std::uint8_t* from, ImageSize stored, Orientation orientation, std::uint8_t* to) {
    constexpr std::uint32_t kTile = 64;  // if rows become columns, a tile of both pictures stays in the cache
    const auto [offset, across, down] = walk_upright(stored, orientation, kPixel);
    const std::uint8_t* const first = from + offset;
    const auto [width, height] = upright_size(stored, orientation);
    for (std::uint32_t top = 0; top < height; top += kTile)
        for (std::uint32_t left = 0; left < width; left += kTile)
            for (std::uint32_t y = top; y < std::min(top + kTile, height); ++y) {
                const std::uint8_t* pixel =
                    first + static_cast<std::int64_t>(left) * across + static_cast<std::int64_t>(y) * down;
                std::uint8_t* out = to + (std::size_t{y} * width + left) * kPixel;
                for (std::uint32_t x = left; x < std::min(left + kTile, width); ++x, pixel += across, out += kPixel)
                    std::memcpy(out, pixel, kPixel);
            }
}

}  // namespace

Orientation exif_orientation(std::span<const std::byte> tiff) {
    constexpr std::size_t kEntryBytes = 12;
    constexpr std::uint32_t kTag = 274, kShort = 3;
    const bool big_endian = begins_with(tiff, "MM\0*"sv);
    if (!big_endian && !begins_with(tiff, "II*\0"sv)) return Orientation::Upright;
    const TiffNumbers numbers(tiff, big_endian);
    const std::uint32_t directory = numbers.at(4, 4).value_or(0);
    const std::uint32_t entries = numbers.at(directory, 2).value_or(0);
    for (std::uint32_t i = 0; i < entries; ++i) {
        const std::size_t entry = std::size_t{directory} + 2 + i * kEntryBytes;
        const auto tag = numbers.at(entry, 2);
        if (!tag) break;
        if (tag != kTag || numbers.at(entry + 2, 2) != kShort) continue;
        const std::uint32_t value = numbers.at(entry + 8, 2).value_or(0);
        return value >= 1 && value <= 8 ? static_cast<Orientation>(value) : Orientation::Upright;
    }
    return Orientation::Upright;
}

Orientation jpeg_orientation(std::span<const std::byte> file) {
    auto found = Orientation::Upright;
    for_each_jpeg_segment(file, [&](unsigned type, std::span<const std::byte> segment) {
        if (type != 0xe1 || !begins_with(segment, "Exif\0\0"sv)) return true;
        found = exif_orientation(segment.subspan(6));
        return false;
    });
    return found;
}

ImageSize upright_size(ImageSize stored, Orientation orientation) {
    return changes_sides(orientation) ? ImageSize{stored.height, stored.width} : stored;
}

PictureRect stored_part(const PictureRect& part, ImageSize stored, Orientation orientation) {
    using enum Orientation;
    const bool changes = changes_sides(orientation);
    PictureRect there{.left = changes ? part.top : part.left,
                      .top = changes ? part.left : part.top,
                      .size = changes ? ImageSize{part.size.height, part.size.width} : part.size};
    // Count from the other side.
    if (orientation == MirrorAcross || orientation == HalfTurn || orientation == Transverse ||
        orientation == QuarterCounterclockwise)
        there.left = stored.width - there.left - there.size.width;
    if (orientation == HalfTurn || orientation == MirrorUpsideDown || orientation == Transverse ||
        orientation == QuarterClockwise)
        there.top = stored.height - there.top - there.size.height;
    return there;
}

UprightWalk walk_upright(ImageSize stored, Orientation orientation, std::int64_t pixel_bytes) {
    const std::int64_t row = std::int64_t{stored.width} * pixel_bytes;
    const std::int64_t right = row - pixel_bytes;
    const std::int64_t bottom = (std::int64_t{stored.height} - 1) * row;
    switch (orientation) {
        case Orientation::Upright:
            break;
        case Orientation::MirrorAcross:
            return {.first = right, .across = -pixel_bytes, .down = row};
        case Orientation::HalfTurn:
            return {.first = bottom + right, .across = -pixel_bytes, .down = -row};
        case Orientation::MirrorUpsideDown:
            return {.first = bottom, .across = pixel_bytes, .down = -row};
        case Orientation::Transpose:
            return {.first = 0, .across = row, .down = pixel_bytes};
        case Orientation::QuarterClockwise:
            return {.first = bottom, .across = -row, .down = pixel_bytes};
        case Orientation::Transverse:
            return {.first = bottom + right, .across = -row, .down = -pixel_bytes};
        case Orientation::QuarterCounterclockwise:
            return {.first = right, .across = row, .down = -pixel_bytes};
    }
    return {.first = 0, .across = pixel_bytes, .down = row};
}

void bring_upright(const std::uint8_t* from, ImageSize stored, Orientation orientation, std::uint8_t* to) {
    bring_pixels_upright<3>(from, stored, orientation, to);
}

void bring_plane_upright(const std::uint8_t* from, ImageSize stored, Orientation orientation, std::uint8_t* to) {
    bring_pixels_upright<1>(from, stored, orientation, to);
}

}  // namespace offramp
