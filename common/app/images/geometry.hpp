#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Sizes, parts and tiles of pictures. Plain values.
namespace offramp {

struct ImageSize {
    std::uint32_t width = 0;
    std::uint32_t height = 0;

    bool operator==(const ImageSize&) const = default;
    std::uint64_t pixels() const { return std::uint64_t{width} * height; }
    std::size_t rgb_bytes() const { return static_cast<std::size_t>(pixels()) * 3; }
};

// A larger image is refused before a byte of it is decoded: a few kilobytes can claim gigabytes.
inline constexpr std::uint64_t kMaxImagePixels = 100'000'000;

// Which pixels of a picture make one of a resized one: a triangle, or Keys' cubic with a = -0.5. Both widen when a
// picture shrinks (antialias).
enum class Interpolation : std::uint8_t { Bilinear, Bicubic };

// Pixels of a picture.
struct PictureRect {
    std::uint32_t left = 0;
    std::uint32_t top = 0;
    ImageSize size;

    bool operator==(const PictureRect&) const = default;
};

// Puts a plane of bytes of a part of a picture in its place in the whole; around it zeros.
inline void surround(std::span<const std::uint8_t> plane, const PictureRect& part, ImageSize whole,
                     std::vector<std::uint8_t>& to) {
    to.assign(whole.pixels(), 0);
    for (std::uint32_t y = 0; y < part.size.height; ++y)
        std::ranges::copy(
            plane.subspan(std::size_t{y} * part.size.width, part.size.width),
            to.begin() + static_cast<std::ptrdiff_t>(std::uint64_t{part.top + y} * whole.width + part.left));
}

// A part of a picture that was brought to another size: as many pixels as requested, from `left`, `top` on. Sides
// are long where a picture of one line is enlarged.
struct ResizedPart {
    std::uint64_t width = 0;  // of the whole picture, in its new size
    std::uint64_t height = 0;
    std::uint64_t left = 0;
    std::uint64_t top = 0;

    bool operator==(const ResizedPart&) const = default;
};

// The part of an upright picture that a model sees: all of it, squeezed into `size`; or, with a `shorter_side`, its
// middle. Its shorter side is then brought to that length, its proportions kept, and `size` is cut out, to the pixel
// where torchvision's Resize and CenterCrop do.
struct PictureFrame {
    PictureFrame(ImageSize all) : size(all) {}  // not explicit: a size is the frame of all of a picture
    PictureFrame(ImageSize part, std::uint32_t shorter, Interpolation way = Interpolation::Bilinear)
        : size(part), shorter_side(shorter), interpolation(way) {}

    ImageSize size;
    std::uint32_t shorter_side = 0;  // 0: all of the picture; else not less than size's sides
    Interpolation interpolation = Interpolation::Bilinear;

    // The place of `size` in the resized picture, which has pixels.
    ResizedPart part_of(ImageSize picture) const;
    // The picture's own pixels that lie in the frame, to the nearest; at least one each way.
    PictureRect visible_rect(ImageSize picture) const;
};

// A larger picture is refused: a mask's working file holds at most this many pixels.
inline constexpr std::uint64_t kMostTiledPixels = 4'000'000'000;

// Cuts a picture of any size into tiles of one size, and merges them again: producer and consumers compute the same.
// Units: pixels.
struct TileSize {
    std::uint32_t tile = 0;     // both sides
    std::uint32_t overlap = 0;  // of neighbours; less than half a tile

    bool operator==(const TileSize&) const = default;
};

struct PixelSpan {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;

    std::uint32_t length() const { return end - begin; }
    bool operator==(const PixelSpan&) const = default;
};

// One side of a picture. Tiles begin every tile - overlap pixels, so that a pixel is in one or two of them. The last
// one is shifted back until all of it is inside the picture, and so sees more than its part; on a side that is shorter
// than a tile there is one, which shows pixels beyond it.
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
    // The first pixel of a tile; it has size.tile of them, or where the side is shorter those that there are.
    std::uint32_t first_shown(std::uint32_t tile) const;
    // All cells together are the side, each pixel once. Without an overlap, odd ones are empty.
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

// The weight of a tile's scores in a seam, `pixel` pixels from where it begins: a ramp from the one tile to the other,
// of whole numbers, so that sums do not round. Both add up to seam_weight().
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
// Nothing where the key is none of a tile, or of one that a picture of this size does not have. Borrows the key.
std::optional<TileOfPicture> tile_of_key(std::string_view key, TileSize size);

}  // namespace offramp
