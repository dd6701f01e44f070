#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/numerics/picture_filter.hpp"
#include "common/wire/output_forms.hpp"

// Sizes, parts and tiles of pictures. Plain values.
namespace offramp {

struct ImageSize {
    std::uint32_t width = 0;
    std::uint32_t height = 0;

    bool operator==(const ImageSize&) const = default;
    std::uint64_t pixels() const { return std::uint64_t{width} * height; }
    std::size_t rgb_bytes() const { return static_cast<std::size_t>(pixels()) * 3; }
};

// A rectangle of a picture, in pixels.
struct PictureRect {
    std::uint32_t left = 0;
    std::uint32_t top = 0;
    ImageSize size;

    bool operator==(const PictureRect&) const = default;
};

// Copies a part's byte plane to its position in a plane of the whole picture, and fills the rest with zeros.
inline void surround(std::span<const std::uint8_t> plane, const PictureRect& part, ImageSize whole,
                     std::vector<std::uint8_t>& to) {
    to.assign(whole.pixels(), 0);
    for (std::uint32_t y = 0; y < part.size.height; ++y)
        std::ranges::copy(
            plane.subspan(std::size_t{y} * part.size.width, part.size.width),
            to.begin() + static_cast<std::ptrdiff_t>(std::uint64_t{part.top + y} * whole.width + part.left));
}

// A part of a resized picture, which begins at (left, top); the caller gives the part's size. Sides have 64 bits,
// because a one-line picture can become very long.
struct ResizedPart {
    std::uint64_t width = 0;  // the whole picture's new size
    std::uint64_t height = 0;
    std::uint64_t left = 0;
    std::uint64_t top = 0;

    bool operator==(const ResizedPart&) const = default;
};

// The part of an upright picture that a model sees. Without `shorter_side`: the whole picture, resized to `size`. With
// it: the picture is resized in proportion until its shorter side has that length, and `size` is cut from the middle.
// The pixels are exactly those of torchvision's Resize and CenterCrop.
struct PictureFrame {
    PictureFrame(ImageSize all) : size(all) {}  // not explicit: a size alone frames the whole picture
    PictureFrame(ImageSize part, std::uint32_t shorter, Interpolation way = Interpolation::Bilinear)
        : size(part), shorter_side(shorter), interpolation(way) {}

    ImageSize size;
    std::uint32_t shorter_side = 0;  // 0: the whole picture; otherwise at least both sides of `size`
    Interpolation interpolation = Interpolation::Bilinear;

    // The position of `size` in the resized picture. `picture` must not be empty.
    ResizedPart part_of(ImageSize picture) const;
    // The frame in the picture's own pixels, rounded to the nearest; at least one pixel in each direction.
    PictureRect visible_rect(ImageSize picture) const;
};

// Larger pictures are rejected: a mask's working file holds at most this many pixels.
inline constexpr std::uint64_t kMostTiledPixels = 4'000'000'000;

// How a picture of any size is cut into tiles of one size, and merged again. Producer and consumers compute the same
// tiles. Units: pixels.
struct TileSize {
    std::uint32_t tile = 0;     // both sides
    std::uint32_t overlap = 0;  // between neighbours; less than half a tile

    bool operator==(const TileSize&) const = default;
};

struct PixelSpan {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;

    std::uint32_t length() const { return end - begin; }
    bool operator==(const PixelSpan&) const = default;
};

// The tiles along one side of a picture. A tile begins every tile - overlap pixels, so each pixel is in one or two
// tiles. The last tile is shifted back into the picture, so it overlaps its neighbour by more. A side that is shorter
// than a tile has one tile, which extends beyond the picture.
//
//   tile 0  |--------------|
//   tile 1             |--------------|
//   cells   |    0     | 1 |    2     |      even ones are one tile's, odd ones are seams, `overlap` long, of two
class TileAxis {
  public:
    // `length` > 0; 2 * overlap < tile.
    TileAxis(std::uint32_t length, TileSize size);

    std::uint32_t length() const { return length_; }
    std::uint32_t tiles() const { return tiles_; }
    // The first pixel of a tile. The tile has size.tile pixels, or the whole side if that is shorter.
    std::uint32_t first_shown(std::uint32_t tile) const;
    // Cells cover the side; each pixel is in exactly one. Without an overlap, odd cells are empty.
    std::uint32_t cells() const { return 2 * tiles_ - 1; }
    PixelSpan cell(std::uint32_t cell) const;
    // The part of a side that belongs to a tile if seams are cut in their middle.
    PixelSpan share(std::uint32_t tile) const;

  private:
    std::uint32_t begin_of(std::uint32_t tile) const { return tile * (size_.tile - size_.overlap); }

    std::uint32_t length_;
    TileSize size_;
    std::uint32_t tiles_;
};

// The weights of the two tiles' scores in a seam, `pixel` pixels from its beginning: a ramp from one tile to the other.
// The weights are whole numbers, so that sums do not round, and add up to seam_weight().
inline std::uint32_t later_weight(std::uint32_t pixel) { return 2 * pixel + 1; }
inline std::uint32_t earlier_weight(std::uint32_t pixel, std::uint32_t overlap) { return 2 * overlap - 2 * pixel - 1; }
inline std::uint32_t seam_weight(std::uint32_t overlap) { return 2 * overlap; }

// A picture's tiles, row by row.
class Tiling {
  public:
    Tiling(ImageSize picture, TileSize size) : across_(picture.width, size), down_(picture.height, size) {}

    const TileAxis& across() const { return across_; }
    const TileAxis& down() const { return down_; }
    std::uint64_t tiles() const { return std::uint64_t{across_.tiles()} * down_.tiles(); }

  private:
    TileAxis across_, down_;
};

// The tile and the picture of a sample, from its key, KEY#WIDTHxHEIGHT@ROW,COLUMN.
struct TileOfPicture {
    std::string_view picture;  // the picture's own key
    ImageSize size;            // of the picture, upright
    std::uint32_t row = 0;
    std::uint32_t column = 0;
};

std::string tile_key(const TileOfPicture& tile);
// Returns nothing if the key does not name a tile, or names a tile that a picture of this size does not have. Borrows
// the key.
std::optional<TileOfPicture> tile_of_key(std::string_view key, TileSize size);

}  // namespace offramp
