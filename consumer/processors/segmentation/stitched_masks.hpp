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

// Stitches the tiles of each picture (--tile) into one palette PNG, OUTPUT/KEY.png, in the picture's size. Where tiles
// overlap, it adds their scores, weighted by ramps, and then compares the classes. Class maps have no scores and are
// cut in the middle of the overlap. Consumers share a picture's canvas (TileCanvas); the consumer that finds it
// complete writes the file. Memory: a tile, and some rows of the picture. Thread: one. Blocks: on the file system.
// Errors: those of TileCanvas and ClassIds; Error with BadInput for a sample that is not a tile.
class StitchedMasks {
  public:
    StitchedMasks(const ProcessorOptions& options, std::string_view processor);

    // Returns false if the delivery no longer counts; nothing was committed then.
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
    bool is_resized_ = false;  // line_of() reads resized scores for the current tile
    std::vector<float> line_, scores_;
    std::vector<double> sums_;
    std::vector<std::uint8_t> row_;
};

}  // namespace offramp
