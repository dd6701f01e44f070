#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/app/images/geometry.hpp"
#include "common/app/images/picture_list.hpp"
#include "common/app/images/picture_parts.hpp"
#include "common/app/images/picture_stamps.hpp"
#include "producer/runner/sources/batch_source.hpp"

namespace offramp {

// A source of the pictures of --input, read as source `name` (common/app/images/picture_list.hpp), decoded to the
// model's size. For a model of arrays [channels, height, width]: the numbers of TIFF files, unchanged. Errors:
// ConfigError (Usage) when the model takes neither; those of open_pictures().
std::unique_ptr<BatchSource> make_picture_source(std::string_view name, const SourceOptions& options);

// Adds the sizes of the first `pictures` pictures, as the shapes [3, height, width], from the beginnings of their
// files. `declared`: for a model of arrays, the shape of a sample, with kVarying where samples differ. Blocks: on the
// disk. Errors: those of `still_wanted`.
void add_shapes(const PictureList& list, std::uint64_t pictures, std::span<const std::int64_t> declared,
                const StillWanted& still_wanted, ItemShapes& shapes);

// True for the shape of a sample that TIFF files of many channels can be: [channels, height, width].
bool is_shape_of_bands(std::span<const std::int64_t> sample);

struct TiledInput {
    std::string name;  // the source's name
    std::shared_ptr<PictureList> pictures;
    TileSize size;
    std::uint64_t limit = 0;    // pictures; 0: all
    std::uint32_t workers = 1;  // loading threads
    StillWanted still_wanted;
    PictureStamps stamps{};  // from an earlier producer's listing; otherwise each picture has its file's stamp
    PixelForm form{};
};

// A source whose items are the tiles of pictures, picture by picture, row by row. The sizes in the pictures' headers,
// all read here, determine the items' numbers and names (tile_key()). A row holds one tile, 8-bit RGB or numbers
// (PictureCuts); beyond the edges of a picture that is smaller than a tile, its last pixels repeat. A picture of
// unreadable size is one unreadable item; tiles of a picture that changed since it was listed are unreadable. Warns if
// most tiles are mostly beyond their pictures. Blocks: on the disk. Errors: those of `still_wanted`.
std::unique_ptr<BatchSource> make_tiled_pictures(TiledInput input);

}  // namespace offramp
