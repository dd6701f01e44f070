#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/images/picture_place.hpp"
#include "common/images/tiling.hpp"

namespace offramp {

// One picture, from which tiles are cut. Thread: any, several at once. Blocks: while it decodes. Errors:
// UnreadableItem.
class PictureCuts {
  public:
    virtual ~PictureCuts() = default;
    // One tile, 8-bit RGB, both of its sides size.tile; beyond the edges of a smaller picture its last pixels go on.
    virtual void cut(std::uint32_t row, std::uint32_t column, std::span<std::byte> to) = 0;
};

// What the front of a picture says of how it is cut.
struct CutPlan {
    ImageSize size;
    bool by_regions = false;  // each tile is decoded by itself; else a row of tiles is, as PictureBands does it
};

// Errors: UnreadableItem: also of one whose rows of tiles are more than kMostBandBytes.
CutPlan plan_of_cuts(const PicturePlace& place, TileSize tiles);
// `workers`: threads that cut at once. Opens nothing yet.
std::shared_ptr<PictureCuts> make_picture_cuts(PicturePlace place, const CutPlan& plan, TileSize tiles,
                                               std::uint32_t workers);

}  // namespace offramp
