#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/images/canvas_file.hpp"
#include "common/app/images/geometry.hpp"
#include "common/base/files.hpp"
#include "common/base/unique_fd.hpp"

namespace offramp {

// A mask in the making: one file that all consumers of a run write a picture's tiles to, until it is whole. A picture's
// pixels are cells (TileAxis): the inner ones are of one tile, which writes their classes; those of seams are of two or
// four, which write their scores, and the one that finds all of them adds them up, in the order of the tiles. So the
// classes do not depend on who came first. It may be killed between any two steps: one byte per cell, set after its
// data, records what is there, and a repeated tile writes the same bytes. The bytes: common/app/images/canvas_file.hpp.
// Locks are of bytes of the file (OFD), so that they go with their process: byte 0 while a cell's byte is set and
// looked at, byte 1 while the mask is committed, a seam's own byte while it is added up.
//
// Owns the open file. Thread: one. Blocks: on the file system, and for a lock that another process has. Errors:
// SystemError with CannotWrite (a full disk, no locks); Error with BadInput for a file of another form, or of another
// state of the picture.
class TileCanvas {
  public:
    // Opens or makes the file at `path`, in a folder that is there or can be made. `name`: the picture's.
    TileCanvas(const std::string& path, const CanvasForm& form, Durability durability, std::string_view name = {});

    const CanvasForm& form() const { return form_; }
    const Tiling& tiling() const { return tiling_; }

    // Puts classes from `x`, `y` on into a row of the mask.
    void put_classes(std::uint32_t x, std::uint32_t y, std::span<const std::uint8_t> ids);
    // Whole rows of the mask.
    void take_rows(std::uint32_t first, std::uint32_t rows, std::vector<std::uint8_t>& ids) const;

    using Cell = CanvasCell;
    // Scores of a tile in a row of a seam, [classes, columns of the cell]; `line`: from the cell's first row on.
    void put_scores(std::uint32_t tile_row, std::uint32_t tile_column, Cell cell, std::uint32_t line,
                    std::span<const float> scores);
    void take_scores(std::uint32_t tile_row, std::uint32_t tile_column, Cell cell, std::uint32_t line,
                     std::span<float> scores) const;
    // The room of a tile's scores in a seam is not needed any more. Where the file system cannot give it back, it stays
    // until the file goes.
    void drop_scores(std::uint32_t tile_row, std::uint32_t tile_column, Cell cell);

    // Makes written data durable, as set by `durability`, before its cell is set.
    void settle();
    bool is_set(Cell cell) const;
    // Sets it. The setter of the last of some cells sees that all are set: `look` runs while no other process sets one.
    void set(Cell cell, const std::function<void()>& look);
    bool all_set() const;

    // Runs `work` while no other process adds up this seam.
    void with_seam(Cell cell, const std::function<void()>& work);
    // Runs `work` while no other process commits this mask.
    void with_commit(const std::function<void()>& work);
    // The mask is committed: frees the space of everything else. This is final.
    void note_committed();
    bool is_committed() const;

    // Whether the mask of the canvas at `path` was committed; false where that is not a canvas.
    static bool is_committed(const std::string& path);
    // The picture's name, or a part of it where it is long; nothing where the canvas at `path` has none.
    static std::string name_of(const std::string& path);

  private:
    void open_or_make(std::string_view name);
    void make(std::string_view name);
    void require_form() const;
    std::uint64_t cell_at(Cell cell) const;
    std::uint64_t scores_at(std::uint32_t tile_row, std::uint32_t tile_column, Cell cell) const;
    void write(std::uint64_t at, std::span<const std::byte> bytes);
    void read(std::uint64_t at, std::span<std::byte> bytes) const;
    void lock(std::uint64_t at, short kind) const;
    void with_lock(std::uint64_t at, const std::function<void()>& work);

    const std::string path_;
    const CanvasForm form_;
    const Tiling tiling_;
    const Durability durability_;
    const CanvasLayout layout_;
    UniqueFd file_;
};

}  // namespace offramp
