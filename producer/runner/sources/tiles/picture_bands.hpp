#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/images/picture_place.hpp"
#include "common/images/picture_rows.hpp"
#include "common/images/tiling.hpp"

namespace offramp {

// What a row of a picture's tiles shows: 8-bit RGB, row by row, from `first` on.
struct PictureBand {
    std::uint32_t first = 0;
    std::uint32_t rows = 0;
    std::vector<std::uint8_t> rgb;
};

// Largest a band may be: of a wider picture nothing is decoded.
inline constexpr std::uint64_t kMostBandBytes = std::uint64_t{1} << 30U;

// Decodes a picture once, from its top, for whoever cuts tiles from it: in bands, each a row of tiles, of which the
// last `kept` stay. Whoever asks for one that is gone has the picture decoded from its top again. Owns the decoder and
// the bands that it keeps; a band lives as long as somebody has it. Thread: any, one after the other. Blocks: while it
// decodes. Errors: UnreadableItem, also of all that asked for a band behind the place where the picture is damaged.
class PictureBands {
  public:
    PictureBands(PicturePlace place, ImageSize size, TileSize tiles, std::uint32_t kept);

    std::shared_ptr<const PictureBand> of_row(std::uint32_t tile_row);

  private:
    std::shared_ptr<const PictureBand> next_band();
    void restart();

    const PicturePlace place_;
    const ImageSize size_;
    const TileAxis down_;
    const std::uint32_t tile_, kept_;
    std::mutex mutex_;
    std::unique_ptr<PictureRows> rows_;
    std::uint32_t read_ = 0;                                // rows of the picture
    std::uint32_t next_ = 0;                                // the band that is made next
    std::deque<std::shared_ptr<const PictureBand>> bands_;  // those before it, the last ones
    // The band from which on the picture cannot be read, and why.
    std::optional<std::pair<std::uint32_t, std::string>> damage_;
};

}  // namespace offramp
