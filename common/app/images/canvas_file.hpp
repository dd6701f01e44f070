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
    std::uint32_t classes = 0;  // whose scores seams are blended of; 0: there are none, seams are cut in their middle
    std::uint64_t stamp = 0;    // of the picture's file (picture_stamps.hpp)

    bool operator==(const CanvasForm&) const = default;
};

// A place among a picture's cells (TileAxis).
struct CanvasCell {
    std::uint32_t row = 0;
    std::uint32_t column = 0;
};
inline CanvasCell inner_cell(std::uint32_t tile_row, std::uint32_t tile_column) {
    return {2 * tile_row, 2 * tile_column};
}

// The file that consumers write a picture's tiles to until its mask is whole, and that a producer reads to learn which
// tiles are there:
//
//   0     CanvasHeader
//   64    the picture's name, up to a zero; for readers
//   4096  a byte a cell, row by row: 0, or 1: its tile has written all it has (an inner cell); its classes are written
//         (a seam)
//   ...   the classes, a byte a pixel, row by row
//   ...   for each tile the scores of its seams, float32 [rows, classes, columns] of each of its eight neighbours; a
//         seam's are given back to the file system once it is added up
//
// Each part begins at a multiple of 4096. Version rule: any change of a field's place or meaning raises
// kCanvasVersion; a file of another version is made anew.
inline constexpr std::uint32_t kCanvasVersion = 1;
inline constexpr std::size_t kCanvasNameAt = 64, kMostCanvasNameBytes = 1024;

struct CanvasHeader {
    std::array<char, 8> magic{'O', 'F', 'F', 'R', 'T', 'I', 'L', 'E'};
    std::uint32_t version = kCanvasVersion;
    std::uint32_t width = 0, height = 0, tile = 0, overlap = 0, classes = 0;
    std::uint64_t committed = 0;  // 1: the mask is in its place
    std::uint64_t stamp = 0;
    std::uint64_t set_cells = 0;  // written behind the cells: where fewer are set, something was lost

    static CanvasHeader of(const CanvasForm& form);
    CanvasForm form() const;
};
static_assert(sizeof(CanvasHeader) == 56 && offsetof(CanvasHeader, committed) == 32 &&
              offsetof(CanvasHeader, stamp) == 40 && offsetof(CanvasHeader, set_cells) == 48);

// Where the parts of a canvas begin, in bytes.
struct CanvasLayout {
    explicit CanvasLayout(const CanvasForm& form);

    std::uint64_t cells_at, classes_at, scores_at, bytes;
    std::uint64_t tile_bytes, edge_bytes, corner_bytes;  // of scores
};

// Where canvases lie, in the folder of what all consumers of a run append to together.
std::string canvas_folder(const std::string& output);
// `mask`: the picture's key and the mask's suffix, which may be longer than a file's name can be.
std::string canvas_name(std::string_view mask);

// A canvas as a producer finds it before its consumers begin. Owns the open file. Thread: one. Blocks: on the file
// system. Errors: SystemError where it cannot be read or removed.
class FoundCanvas {
  public:
    // `wanted`: `classes` does not count.
    FoundCanvas(std::string path, const CanvasForm& wanted);

    bool is_there() const { return static_cast<bool>(file_); }
    // It is as long as it was made, has all cells that were set, and is of this picture, in this state, and of these
    // tiles.
    bool matches_form() const { return matches_form_; }
    // The mask was put in its place, of whatever state of the picture.
    bool is_committed() const { return is_committed_; }
    // Call the rest where it is as wanted. No cell is left to be set.
    bool is_full() const;
    // All that the mask needs of this tile is there. Of a seam that no tile would add up any more, none of its tiles
    // is.
    bool has(std::uint32_t tile_row, std::uint32_t tile_column) const;

    // Unless another process has put a new one in its place. Call it once.
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

// A cell is between one tile and the next along an axis, or within one.
struct TilesOfCell {
    std::uint32_t first = 0;
    std::uint32_t count = 1;
};
inline TilesOfCell tiles_of_cell(std::uint32_t cell) { return {cell / 2, cell % 2 + 1}; }

}  // namespace offramp
