#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/base/unique_fd.hpp"

namespace offramp {

// Identifies a canvas, the working file of a mask of tiles.
struct CanvasForm {
    ImageSize picture;
    TileSize tiles;
    std::uint32_t classes = 0;  // classes whose scores are blended in seams; 0: no scores, seams are cut in the middle
    std::uint64_t stamp = 0;    // of the picture's file (picture_stamps.hpp)

    bool operator==(const CanvasForm&) const = default;
};

// The position of a cell of a picture (TileAxis).
struct CanvasCell {
    std::uint32_t row = 0;
    std::uint32_t column = 0;
};
inline CanvasCell inner_cell(std::uint32_t tile_row, std::uint32_t tile_column) {
    return {2 * tile_row, 2 * tile_column};
}

// Consumers write a picture's tiles to this file until its mask is complete. A producer reads it to learn which tiles
// are already written:
//
//   0     CanvasHeader
//   64    the picture's name, up to a zero; for readers
//   4096  a byte a cell, row by row: 0, or 1: its tile has written all it has (an inner cell); its classes are written
//         (a seam)
//   ...   the classes, a byte a pixel, row by row
//   ...   for each tile the scores of its seams, float32 [rows, classes, columns] of each of its eight neighbours; a
//         seam's are given back to the file system once it is added up
//
// Each part begins at a multiple of 4096. Version rule: raise kCanvasVersion with any change of a field's place or
// meaning. A file of another version is created again.
inline constexpr std::uint32_t kCanvasVersion = 1;
inline constexpr std::size_t kCanvasNameAt = 64, kMostCanvasNameBytes = 1024;

struct CanvasHeader {
    std::array<char, 8> magic{'O', 'F', 'F', 'R', 'T', 'I', 'L', 'E'};
    std::uint32_t version = kCanvasVersion;
    std::uint32_t width = 0, height = 0, tile = 0, overlap = 0, classes = 0;
    std::uint64_t committed = 0;  // 1: the mask has its final name
    std::uint64_t stamp = 0;
    std::uint64_t set_cells = 0;  // written after the cells: if fewer cells are set, data was lost

    static CanvasHeader of(const CanvasForm& form);
    CanvasForm form() const;
};
static_assert(sizeof(CanvasHeader) == 56 && offsetof(CanvasHeader, committed) == 32 &&
              offsetof(CanvasHeader, stamp) == 40 && offsetof(CanvasHeader, set_cells) == 48);

// Offsets and sizes of a canvas's parts, in bytes.
struct CanvasLayout {
    explicit CanvasLayout(const CanvasForm& form);

    std::uint64_t cells_at, classes_at, scores_at, bytes;
    std::uint64_t tile_bytes, edge_bytes, corner_bytes;  // of scores
};

// The folder of a run's canvases. `output`: the folder of the files that all consumers of the run append to.
std::string canvas_folder(const std::string& output);
// A hash of `mask` (the picture's key and the mask's suffix), because `mask` may be too long for a file name.
std::string canvas_name(std::string_view mask);

// A canvas that a producer finds before its consumers begin. Owns the open file. Thread: one. Blocks: on the file
// system. Errors: SystemError if the file cannot be read or removed.
class FoundCanvas {
  public:
    // `wanted.classes` is ignored.
    FoundCanvas(std::string path, const CanvasForm& wanted);

    bool is_there() const { return static_cast<bool>(file_); }
    // True if the file has its full length and all cells that were set, and belongs to this picture, stamp and tiling.
    bool matches_form() const { return matches_form_; }
    // True if the mask has its final name, for any version of the picture.
    bool is_committed() const { return is_committed_; }
    // Call the functions below only if matches_form(). True if every cell is set.
    bool is_full() const;
    // True if the canvas holds everything that the mask needs of this tile. False for all tiles of a seam that is not
    // summed although all its tiles are written: no delivered tile would sum it.
    bool has(std::uint32_t tile_row, std::uint32_t tile_column) const;

    // Removes the file, unless another process has replaced it. Call it once.
    void remove();

  private:
    bool is_set(CanvasCell cell) const {
        return cells_[std::size_t{cell.row} * columns_ + cell.column] != std::byte{0};
    }
    bool is_lost(CanvasCell seam) const;
    bool read_cells(const CanvasForm& form, std::uint64_t set_cells);

    std::string path_;
    UniqueFd file_;
    bool matches_form_ = false, is_committed_ = false, has_seams_ = false;
    std::uint32_t rows_ = 0, columns_ = 0;
    std::vector<std::byte> cells_;
};

// The tiles that a cell belongs to along an axis: one, or two for a seam.
struct TilesOfCell {
    std::uint32_t first = 0;
    std::uint32_t count = 1;
};
inline TilesOfCell tiles_of_cell(std::uint32_t cell) { return {cell / 2, cell % 2 + 1}; }

}  // namespace offramp
