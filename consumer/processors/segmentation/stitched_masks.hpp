#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/app/images/picture_stamps.hpp"
#include "common/base/files.hpp"
#include "common/numerics/foreground_score.hpp"
#include "consumer/processors/pictures/png_encoder.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/segmentation/class_ids.hpp"
#include "consumer/processors/segmentation/enlarged_sample.hpp"
#include "consumer/processors/segmentation/segmentation_output.hpp"
#include "consumer/processors/segmentation/tile_canvas.hpp"

namespace offramp {

// Puts the tiles of pictures (--tile) together, each picture's into one palette PNG, OUTPUT/KEY.png, in its own size:
// where tiles overlap, their scores are added, weighted by ramps, and compared then; class maps, which have no scores,
// are cut in the middle. Consumers share a picture's canvas (TileCanvas); the consumer that finds it whole writes the
// file. Memory: a tile, and some rows of the picture. Thread: one. Blocks: on the file system. Errors: those of
// TileCanvas and ClassIds; Error with BadInput for a sample that is not a tile.
class StitchedMasks {
  public:
    StitchedMasks(const ProcessorOptions& options, std::string_view processor);

    // False: the delivery does not count any more, and nothing was committed.
    bool add(const SegmentationOutput& output, const SampleView& sample, const Progress& progress,
             const StillCurrent& still_current);

  private:
    // The tile being added.
    struct Tile {
        const SegmentationOutput& output;
        const SampleView& sample;
        TileOfPicture place;
        const Progress& progress;
    };

    void write_alone(const Tile& tile, std::span<const std::uint8_t> ids, const std::string& path);
    void add_to_canvas(const Tile& tile, std::span<const std::uint8_t> ids, const std::string& path);
    void put_inner(const Tile& tile, std::span<const std::uint8_t> ids, TileCanvas& canvas);
    void put_seams(const Tile& tile, std::span<const TileCanvas::Cell> seams, TileCanvas& canvas);
    void add_up(TileCanvas::Cell seam, TileCanvas& canvas, bool one_channel);
    void commit(TileCanvas& canvas, const Tile& tile, const std::string& path);
    std::span<const float> line_of(const Tile& tile, std::uint32_t y);

    const TileSize size_;
    const std::string folder_, canvases_;
    const Durability durability_;
    const ForegroundScale scale_;
    PictureStamps stamps_;
    PalettePng png_;
    ClassIds ids_;
    ResizedScores resized_;
    bool is_resized_ = false;  // what line_of() takes of the tile under way
    std::vector<float> line_, scores_;
    std::vector<double> sums_;
    std::vector<std::uint8_t> row_;
};

}  // namespace offramp
