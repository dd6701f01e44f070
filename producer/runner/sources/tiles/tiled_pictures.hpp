#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/images/picture_list.hpp"
#include "common/images/picture_stamps.hpp"
#include "common/images/still_wanted.hpp"
#include "common/images/tiling.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

struct TiledInput {
    std::string name;  // of the source
    std::shared_ptr<PictureList> pictures;
    TileSize size;
    std::uint64_t limit = 0;    // of pictures; 0: all of them
    std::uint32_t workers = 1;  // that load at once
    StillWanted still_wanted;
    PictureStamps stamps{};  // of pictures that were listed by a producer before; else each has that of its file
};

// A source whose items are the tiles of pictures, picture by picture, row by row. Items are numbered and named
// (tile_key()) by what the pictures' headers say of their sizes, all of which are read here. A row holds one tile,
// 8-bit RGB; beyond the edges of a picture that is smaller than a tile, its last pixels go on. A picture whose size
// cannot be read is one item, that cannot be read either; so are tiles of one that changed since it was listed. Warns
// where most tiles are mostly beyond their pictures. Blocks: on the disk. Errors: those of `still_wanted`.
std::unique_ptr<BatchSource> make_tiled_pictures(TiledInput input);

}  // namespace offramp
