#include "consumer/processors/segmentation/stitched_masks.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/app/images/canvas_file.hpp"
#include "common/app/images/item_keys.hpp"
#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/shm/run_files.hpp"
#include "consumer/processors/raw/row_chunks.hpp"
#include "consumer/processors/raw/sample_array.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/files/output_name.hpp"

namespace offramp {
namespace {

using Cell = TileCanvas::Cell;

// The seams for which a tile has scores, row by row.
std::vector<Cell> seams_of(const TileOfPicture& tile, const Tiling& tiling) {
    std::vector<Cell> seams;
    const auto around = [](std::uint32_t number, const TileAxis& axis) {
        const std::uint32_t middle = 2 * number;
        return std::pair{middle == 0 ? 0 : middle - 1, std::min(middle + 1, axis.cells() - 1)};
    };
    const auto [first_row, last_row] = around(tile.row, tiling.down());
    const auto [first_column, last_column] = around(tile.column, tiling.across());
    for (std::uint32_t row = first_row; row <= last_row; ++row)
        for (std::uint32_t column = first_column; column <= last_column; ++column)
            if (row % 2 == 1 || column % 2 == 1) seams.push_back({row, column});
    return seams;
}

std::uint32_t weight_of(std::uint32_t cell, std::uint32_t place, std::uint32_t pixel, std::uint32_t overlap) {
    if (cell % 2 == 0) return 1;
    return place == 0 ? earlier_weight(pixel, overlap) : later_weight(pixel);
}

// The first of the largest, where NaN counts as largest, as ClassArgmax does.
std::uint8_t largest(const double* sums, std::size_t classes, std::size_t stride) {
    std::size_t best = 0;
    for (std::size_t c = 1; c < classes; ++c) {
        const double sum = sums[c * stride], most = sums[best * stride];
        if (!std::isnan(most) && (sum > most || std::isnan(sum))) best = c;
    }
    return static_cast<std::uint8_t>(best);
}

}  // namespace

StitchedMasks::StitchedMasks(const ProcessorOptions& options, std::string_view processor)
    : size_{options.input.tile, options.input.overlap_pixels()},
      folder_(options.output_for(processor)),
      // Shards of a job share pictures and the folder of masks.
      canvases_(canvas_folder(options.results.samples_folder.empty() ? options.shared_output_for(processor) : folder_)),
      durability_(options.durability()),
      scale_(options.foreground_scale()),
      png_(options.settings),
      ids_(scale_) {
    if (!options.run_dir.empty()) stamps_ = PictureStamps::kept(options.run_dir + "/" + run_files::kPictureStamps);
    require_writable_folder(canvases_);
}

bool StitchedMasks::add(const SegmentationOutput& output, const SampleView& sample, const Progress& progress,
                        const StillCurrent& still_current) {
    const auto place = tile_of_key(sample.key, size_);
    if (!place)
        throw Error(ErrorKind::BadInput,
                    "'" + printable(sample.key) + "' is not a tile of " + std::to_string(size_.tile) +
                        " pixels of a picture: the run has --tile, but its source gives other samples");
    const Tile tile{.output = output, .sample = sample, .place = *place, .progress = progress};
    const std::string path = sample_path(folder_, place->picture, output.suffix + ".png");
    const auto ids = ids_.of(output, sample, ImageSize{size_.tile, size_.tile}, progress);
    if (!still_current()) return false;
    if (Tiling(place->size, size_).tiles() == 1)
        write_alone(tile, ids, path);
    else
        add_to_canvas(tile, ids, path);
    return true;
}

void StitchedMasks::write_alone(const Tile& tile, std::span<const std::uint8_t> ids, const std::string& path) {
    const auto [width, height] = tile.place.size;
    row_.resize(tile.place.size.pixels());
    for (std::uint32_t y = 0; y < height; ++y)
        std::memcpy(row_.data() + std::size_t{y} * width, ids.data() + std::size_t{y} * size_.tile, width);
    write_atomically(path, png_.encode(row_, width, height, tile.progress), durability_);
}

void StitchedMasks::add_to_canvas(const Tile& tile, std::span<const std::uint8_t> ids, const std::string& path) {
    const bool blends = tile.output.has_scores() && size_.overlap > 0;
    const auto classes = tile.output.has_scores() ? static_cast<std::uint32_t>(tile.output.tensor->spec.shape[1]) : 0U;
    TileCanvas canvas(
        canvases_ + "/" + canvas_name(std::string(tile.place.picture) + tile.output.suffix),
        {.picture = tile.place.size, .tiles = size_, .classes = classes, .stamp = stamps_.of(tile.place.picture)},
        durability_, tile.place.picture);
    if (canvas.is_committed()) return;
    const std::vector<Cell> seams = blends ? seams_of(tile.place, canvas.tiling()) : std::vector<Cell>{};
    put_inner(tile, ids, canvas);
    put_seams(tile, seams, canvas);
    canvas.settle();
    failpoint("stitch.written");

    // The seams to which no other consumer will write any more.
    std::vector<Cell> whole;
    const auto all_tiles_wrote = [&](Cell seam) {
        const auto [first_row, rows] = tiles_of_cell(seam.row);
        const auto [first_column, columns] = tiles_of_cell(seam.column);
        for (std::uint32_t row = first_row; row < first_row + rows; ++row)
            for (std::uint32_t column = first_column; column < first_column + columns; ++column)
                if (!canvas.is_set(inner_cell(row, column))) return false;
        return true;
    };
    bool is_whole = false;
    canvas.set(inner_cell(tile.place.row, tile.place.column), [&] {
        std::ranges::copy_if(seams, std::back_inserter(whole), all_tiles_wrote);
        is_whole = canvas.all_set();
    });
    failpoint("stitch.noted");
    for (const Cell seam : whole) {
        canvas.with_seam(seam, [&] {
            if (canvas.is_set(seam)) return;
            add_up(seam, canvas, tile.output.one_channel());
            canvas.settle();
            failpoint("stitch.added");
            canvas.set(seam, [&] { is_whole = canvas.all_set(); });
            failpoint("stitch.seam");
            const auto [first_row, rows] = tiles_of_cell(seam.row);
            const auto [first_column, columns] = tiles_of_cell(seam.column);
            for (std::uint32_t row = first_row; row < first_row + rows; ++row)
                for (std::uint32_t column = first_column; column < first_column + columns; ++column)
                    canvas.drop_scores(row, column, seam);
        });
        tile.progress();
    }
    if (is_whole) commit(canvas, tile, path);
}

// Writes the classes of the pixels that only this tile covers; where seams are cut, its share of the picture.
void StitchedMasks::put_inner(const Tile& tile, std::span<const std::uint8_t> ids, TileCanvas& canvas) {
    const TileAxis& across = canvas.tiling().across();
    const TileAxis& down = canvas.tiling().down();
    const bool is_cut = canvas.form().classes == 0;
    const PixelSpan columns = is_cut ? across.share(tile.place.column) : across.cell(2 * tile.place.column);
    const PixelSpan rows = is_cut ? down.share(tile.place.row) : down.cell(2 * tile.place.row);
    const std::uint32_t left = across.first_shown(tile.place.column), top = down.first_shown(tile.place.row);
    ProgressByBytes done(tile.progress);
    for (std::uint32_t y = rows.begin; y < rows.end; ++y) {
        canvas.put_classes(columns.begin, y,
                           ids.subspan(std::size_t{y - top} * size_.tile + (columns.begin - left), columns.length()));
        done.add(columns.length());
    }
}

void StitchedMasks::put_seams(const Tile& tile, std::span<const Cell> seams, TileCanvas& canvas) {
    std::vector<Cell> open;
    std::ranges::copy_if(seams, std::back_inserter(open), [&](Cell seam) { return !canvas.is_set(seam); });
    if (open.empty()) return;
    const TileAxis& across = canvas.tiling().across();
    const TileAxis& down = canvas.tiling().down();
    const std::uint32_t left = across.first_shown(tile.place.column), top = down.first_shown(tile.place.row);
    const std::size_t classes = canvas.form().classes;
    is_resized_ = tile.output.upsample_factor > 1 || !(tile.output.size() == ImageSize{size_.tile, size_.tile});
    if (is_resized_) {
        resized_.begin(tile.output.scores(tile.sample.row), tile.output.upsample_factor, {size_.tile, size_.tile});
        resized_.take_columns(0, size_.tile);
    }
    ProgressByBytes done(tile.progress);
    for (std::uint32_t y = 0; y < size_.tile; ++y) {
        std::span<const float> line;  // [classes, tile], computed on demand
        for (const Cell seam : open) {
            const PixelSpan rows = down.cell(seam.row), columns = across.cell(seam.column);
            if (top + y < rows.begin || top + y >= rows.end) continue;
            if (line.empty()) line = line_of(tile, y);
            scores_.resize(classes * columns.length());
            for (std::size_t c = 0; c < classes; ++c)
                std::memcpy(scores_.data() + c * columns.length(),
                            line.data() + c * size_.tile + (columns.begin - left), columns.length() * sizeof(float));
            canvas.put_scores(tile.place.row, tile.place.column, seam, top + y - rows.begin, scores_);
            done.add(scores_.size() * sizeof(float));
        }
    }
}

// Row y of the tile's scores, [classes, tile]. Scores that have the tile's size already are used directly.
std::span<const float> StitchedMasks::line_of(const Tile& tile, std::uint32_t y) {
    if (is_resized_) return resized_.line(y);
    const ClassScores scores = tile.output.scores(tile.sample.row);
    line_.resize(static_cast<std::size_t>(scores.classes) * size_.tile);
    float* to = line_.data();
    for (std::int64_t c = 0; c < scores.classes; ++c)
        for (std::int64_t x = 0; x < scores.width; ++x) {
            const std::int64_t at = c * scores.class_stride + y * scores.row_stride + x * scores.column_stride;
            const std::byte* const from = scores.data + at * static_cast<std::int64_t>(scores.dtype.bytes());
            *to++ = number_at(from, scores.dtype);
        }
    return line_;
}

// Uses double: sums of weighted scores are exact where the tiles agree, so such pixels get the class of an untiled
// picture.
void StitchedMasks::add_up(Cell seam, TileCanvas& canvas, bool one_channel) {
    const PixelSpan rows = canvas.tiling().down().cell(seam.row), columns = canvas.tiling().across().cell(seam.column);
    const std::size_t classes = canvas.form().classes, width = columns.length();
    const auto [first_row, tile_rows] = tiles_of_cell(seam.row);
    const auto [first_column, tile_columns] = tiles_of_cell(seam.column);
    const double whole =
        (tile_rows == 2 ? seam_weight(size_.overlap) : 1.0) * (tile_columns == 2 ? seam_weight(size_.overlap) : 1.0);
    scores_.resize(classes * width);
    row_.resize(width);
    for (std::uint32_t y = 0; y < rows.length(); ++y) {
        sums_.assign(classes * width, 0.0);
        for (std::uint32_t row = 0; row < tile_rows; ++row)
            for (std::uint32_t column = 0; column < tile_columns; ++column) {
                canvas.take_scores(first_row + row, first_column + column, seam, y, scores_);
                const double down = weight_of(seam.row, row, y, size_.overlap);
                for (std::size_t c = 0; c < classes; ++c)
                    for (std::size_t x = 0; x < width; ++x)
                        sums_[c * width + x] +=
                            down * weight_of(seam.column, column, static_cast<std::uint32_t>(x), size_.overlap) *
                            static_cast<double>(scores_[c * width + x]);
            }
        for (std::size_t x = 0; x < width; ++x)
            row_[x] = one_channel ? (sums_[x] >= static_cast<double>(scale_.least) * whole ? 1 : 0)
                                  : largest(sums_.data() + x, classes, width);
        canvas.put_classes(columns.begin, rows.begin + y, row_);
    }
}

void StitchedMasks::commit(TileCanvas& canvas, const Tile& tile, const std::string& path) {
    canvas.with_commit([&] {
        if (canvas.is_committed()) return;
        AtomicFile file(path, durability_);
        png_.encode_rows(
            canvas.form().picture,
            [&](std::uint32_t first, std::uint32_t rows) -> std::span<const std::uint8_t> {
                canvas.take_rows(first, rows, row_);
                return row_;
            },
            [&](std::span<const std::byte> bytes) { file.write(bytes); }, tile.progress);
        file.commit();
        failpoint("stitch.committed");
        canvas.note_committed();
    });
}

}  // namespace offramp
