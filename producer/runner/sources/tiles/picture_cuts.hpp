#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/app/images/picture_bytes.hpp"
#include "common/app/images/picture_parts.hpp"

namespace offramp {

// A picture to cut tiles from. Thread: any, several concurrently. Blocks: while it decodes. Errors: UnreadableItem.
class PictureCuts {
  public:
    virtual ~PictureCuts() = default;
    // Cuts one tile with sides of size.tile: 8-bit RGB, or numbers [channels, tile, tile] (PixelForm). Beyond the edges
    // of a smaller picture its last pixels repeat.
    virtual void cut(std::uint32_t row, std::uint32_t column, std::span<std::byte> to) = 0;
};

// How to cut a picture, according to the beginning of its file.
struct CutPlan {
    ImageSize size;
    bool by_regions = false;  // each tile is decoded by itself; otherwise a row of tiles, by PictureBands
    PixelForm form{};
};

// Errors: UnreadableItem: also for a picture whose rows of tiles exceed kMostBandBytes.
CutPlan plan_of_cuts(const PicturePlace& place, TileSize tiles, PixelForm form = {});
// `workers`: the number of threads that cut concurrently. Opens no file yet.
std::shared_ptr<PictureCuts> make_picture_cuts(PicturePlace place, const CutPlan& plan, TileSize tiles,
                                               std::uint32_t workers);

// Reads a whole TIFF as numbers [channels, height, width]. Blocks: while it decodes. Errors: UnreadableItem: also for
// another size.
void read_numbers(const PicturePlace& place, PixelForm form, ImageSize size, std::span<std::byte> to);

// The pixels of a row of a picture's tiles, row by row, from `first` on.
struct PictureBand {
    std::uint32_t first = 0;
    std::uint32_t rows = 0;
    std::vector<std::uint8_t> pixels;
};

// The largest band: wider pictures are not decoded.
inline constexpr std::uint64_t kMostBandBytes = std::uint64_t{1} << 30U;

// Decodes a picture once, from its top, for cutting tiles: in bands, each a row of tiles. The last `kept` bands stay;
// for an earlier one the picture is decoded from its top again. Owns the decoder and the bands that it keeps; a band
// lives as long as it has a holder. Thread: any, one after the other. Blocks: while it decodes. Errors: UnreadableItem,
// for every band at or after the damaged part of the picture.
class PictureBands {
  public:
    PictureBands(PicturePlace place, ImageSize size, TileSize tiles, std::uint32_t kept, PixelForm form = {});

    std::shared_ptr<const PictureBand> of_row(std::uint32_t tile_row);

  private:
    std::shared_ptr<const PictureBand> next_band();
    void restart();

    const PicturePlace place_;
    const ImageSize size_;
    const PixelForm form_;
    const TileAxis down_;
    const std::uint32_t tile_, kept_;
    std::mutex mutex_;
    std::unique_ptr<PictureRows> rows_;
    std::uint32_t read_ = 0;                                // rows of the picture
    std::uint32_t next_ = 0;                                // the next band to make
    std::deque<std::shared_ptr<const PictureBand>> bands_;  // the last bands before it
    // The first damaged band, and the error.
    std::optional<std::pair<std::uint32_t, std::string>> damage_;
};

}  // namespace offramp
