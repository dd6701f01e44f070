#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/app/images/picture_place.hpp"
#include "common/app/images/tiling.hpp"

namespace offramp {

// A picture to cut tiles from. Thread: any, several concurrently. Blocks: while it decodes. Errors: UnreadableItem.
class PictureCuts {
  public:
    virtual ~PictureCuts() = default;
    // One tile, 8-bit RGB, both of its sides size.tile; beyond the edges of a smaller picture its last pixels repeat.
    virtual void cut(std::uint32_t row, std::uint32_t column, std::span<std::byte> to) = 0;
};

// The method of cutting, from the front of a picture.
struct CutPlan {
    ImageSize size;
    bool by_regions = false;  // each tile is decoded by itself; otherwise a row of tiles, by PictureBands
};

// Errors: UnreadableItem: also for a picture whose rows of tiles exceed kMostBandBytes.
CutPlan plan_of_cuts(const PicturePlace& place, TileSize tiles);
// `workers`: concurrent cutting threads. Opens nothing yet.
std::shared_ptr<PictureCuts> make_picture_cuts(PicturePlace place, const CutPlan& plan, TileSize tiles,
                                               std::uint32_t workers);

}  // namespace offramp
