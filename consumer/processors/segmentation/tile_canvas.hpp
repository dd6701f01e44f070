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

// An unfinished mask: one file to which all consumers of a run write a picture's tiles, until it is complete. The
// picture's pixels are grouped into cells (TileAxis). An inner cell belongs to one tile, which writes its classes. A
// seam cell belongs to two or four tiles, which write their scores. The consumer that finds all scores of a seam adds
// them up in tile order, so the classes do not depend on the order of arrival.
//
// A consumer may be killed between any two steps. One byte per cell, set after its data, records what is complete, and
// a repeated tile writes the same bytes. File format: common/app/images/canvas_file.hpp. Locks cover bytes of the file
// (OFD), so that they end with their process: byte 0 while a cell's byte is set and checked, byte 1 while the mask is
// committed, and a seam's own byte while it is added up.
//
// Owns the open file. Thread: one. Blocks: on the file system, and for another process's lock. Errors: SystemError with
// CannotWrite (a full disk, no locks); Error with BadInput for a file of another form, or of another state of the
// picture.
class TileCanvas {
  public:
    // Opens or creates the file at `path`, in a folder that exists or can be created. `name`: the picture's.
    TileCanvas(const std::string& path, const CanvasForm& form, Durability durability, std::string_view name = {});

    const CanvasForm& form() const { return form_; }
    const Tiling& tiling() const { return tiling_; }

    // Writes classes into a row of the mask, starting at `x`, `y`.
    void put_classes(std::uint32_t x, std::uint32_t y, std::span<const std::uint8_t> ids);
    // Reads whole rows of the mask.
    void take_rows(std::uint32_t first, std::uint32_t rows, std::vector<std::uint8_t>& ids) const;

    using Cell = CanvasCell;
    // Writes a tile's scores for one row of a seam, [classes, columns of the cell]; `line` counts from the cell's first
    // row.
    void put_scores(std::uint32_t tile_row, std::uint32_t tile_column, Cell cell, std::uint32_t line,
                    std::span<const float> scores);
    void take_scores(std::uint32_t tile_row, std::uint32_t tile_column, Cell cell, std::uint32_t line,
                     std::span<float> scores) const;
    // Frees the space of a tile's scores in a seam. If the file system cannot free it, it stays until the file is
    // removed.
    void drop_scores(std::uint32_t tile_row, std::uint32_t tile_column, Cell cell);

    // Makes written data durable, as `durability` requires, before its cell is set.
    void settle();
    bool is_set(Cell cell) const;
    // Sets the cell, then runs `look` while no other process sets one. So the process that sets the last of several
    // cells sees that all are set.
    void set(Cell cell, const std::function<void()>& look);
    bool all_set() const;

    // Runs `work` while no other process adds up this seam.
    void with_seam(Cell cell, const std::function<void()>& work);
    // Runs `work` while no other process commits this mask.
    void with_commit(const std::function<void()>& work);
    // Marks the mask as committed and frees the space of everything else. This is final.
    void note_committed();
    bool is_committed() const;

    // True if the mask of the canvas at `path` was committed; false if the file is not a canvas.
    static bool is_committed(const std::string& path);
    // The picture's name, shortened if it is long; empty if the canvas at `path` has none.
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
