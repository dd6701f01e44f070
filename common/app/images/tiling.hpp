#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/app/images/geometry.hpp"

// Cuts a picture of any size into tiles of one size, and merges them again. Plain values: producer and consumers
// compute the same. Units: pixels.
namespace offramp {

// A larger picture is refused: so many pixels may a mask's working file have.
inline constexpr std::uint64_t kMostTiledPixels = 4'000'000'000;

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
