#include "consumer/processors/segmentation/tile_canvas.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/utf8.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/files/held_output.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t kTableLock = 0, kCommitLock = 1;

}  // namespace

TileCanvas::TileCanvas(const std::string& path, const CanvasForm& form, Durability durability, std::string_view name)
    : path_(path), form_(form), tiling_(form.picture, form.tiles), durability_(durability), layout_(form) {
    open_or_make(name);
}

void TileCanvas::open_or_make(std::string_view name) {
    for (;;) {
        file_ = UniqueFd(::open(HeldOutput::through(path_).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
        if (file_) return require_form();
        if (errno == EINTR) continue;
        if (errno != ENOENT) throw write_error("the working file of a mask, " + path_, errno);
        make(name);
    }
}

// The file gets its name once its header is complete. Another consumer may be first.
void TileCanvas::make(std::string_view name) {
    AtomicFile file(path_, durability_, "the working file of a mask, ");
    const CanvasHeader header = CanvasHeader::of(form_);
    std::array<char, kCanvasNameAt + kMostCanvasNameBytes> begin{};
    std::memcpy(begin.data(), &header, sizeof header);
    const std::string_view shown = utf8_prefix(name, kMostCanvasNameBytes - 1);
    std::ranges::copy(shown, begin.begin() + kCanvasNameAt);
    file.write(std::as_bytes(std::span(begin)));
    file.set_size(layout_.bytes);
    failpoint("canvas.made");
    file.commit_if_none();
}

void TileCanvas::require_form() const {
    CanvasHeader header;
    read(0, std::as_writable_bytes(std::span(&header, 1)));
    CanvasHeader wanted = CanvasHeader::of(form_);
    wanted.committed = header.committed;
    wanted.set_cells = header.set_cells;
    if (header.committed != 0) wanted.stamp = header.stamp;  // a finished mask stays
    if (std::memcmp(&header, &wanted, sizeof header) == 0) return;
    const bool only_changed =
        header.stamp != std::exchange(wanted.stamp, header.stamp) && std::memcmp(&header, &wanted, sizeof header) == 0;
    throw Error(
        ErrorKind::BadInput,
        "the working file of a mask, " + path_ +
            (only_changed
                 ? ", belongs to another version of the picture, which changed during the run"
                 : ", was made with another picture size, tile, overlap or number of classes, or by another version"),
        "Stop the run and continue it with --resume, which computes the picture again");
}

std::uint64_t TileCanvas::cell_at(Cell cell) const {
    return layout_.cells_at + std::uint64_t{cell.row} * tiling_.across().cells() + cell.column;
}

// A tile touches nine cells, row by row. The inner one has no scores; corners and edges alternate.
std::uint64_t TileCanvas::scores_at(std::uint32_t tile_row, std::uint32_t tile_column, Cell cell) const {
    const std::uint32_t down = cell.row + 1 - 2 * tile_row, across = cell.column + 1 - 2 * tile_column;
    expect(down < 3 && across < 3 && (down != 1 || across != 1), "a tile has scores in the seams around it");
    const std::uint32_t place = down * 3 + across;
    const std::uint32_t corners = (place + 1) / 2 - (place > 4 ? 1 : 0), edges = place / 2;
    return layout_.scores_at + (std::uint64_t{tile_row} * tiling_.across().tiles() + tile_column) * layout_.tile_bytes +
           corners * layout_.corner_bytes + edges * layout_.edge_bytes;
}

void TileCanvas::write(std::uint64_t at, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        const ssize_t put = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(at));
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) throw write_error("the working file of a mask, " + path_, put == 0 ? ENOSPC : errno);
        at += static_cast<std::uint64_t>(put);
        bytes = bytes.subspan(static_cast<std::size_t>(put));
    }
}

void TileCanvas::read(std::uint64_t at, std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
        const ssize_t got = ::pread(file_.get(), bytes.data(), bytes.size(), static_cast<off_t>(at));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw write_error("reading the working file of a mask, " + path_, errno);
        if (got == 0)
            throw Error(ErrorKind::BadInput,
                        "the working file of a mask, " + path_ + ", was truncated by another process",
                        "Stop the run and continue it with --resume, which computes what is missing");
        at += static_cast<std::uint64_t>(got);
        bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
}

void TileCanvas::put_classes(std::uint32_t x, std::uint32_t y, std::span<const std::uint8_t> ids) {
    write(layout_.classes_at + std::uint64_t{y} * form_.picture.width + x, std::as_bytes(ids));
}

void TileCanvas::take_rows(std::uint32_t first, std::uint32_t rows, std::vector<std::uint8_t>& ids) const {
    ids.resize(std::size_t{rows} * form_.picture.width);
    read(layout_.classes_at + std::uint64_t{first} * form_.picture.width, std::as_writable_bytes(std::span(ids)));
}

void TileCanvas::put_scores(std::uint32_t tile_row, std::uint32_t tile_column, Cell cell, std::uint32_t line,
                            std::span<const float> scores) {
    write(scores_at(tile_row, tile_column, cell) + line * scores.size_bytes(), std::as_bytes(scores));
}

void TileCanvas::take_scores(std::uint32_t tile_row, std::uint32_t tile_column, Cell cell, std::uint32_t line,
                             std::span<float> scores) const {
    read(scores_at(tile_row, tile_column, cell) + line * scores.size_bytes(), std::as_writable_bytes(scores));
}

void TileCanvas::drop_scores(std::uint32_t tile_row, std::uint32_t tile_column, Cell cell) {
    const bool is_corner = cell.row % 2 == 1 && cell.column % 2 == 1;
    ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(scores_at(tile_row, tile_column, cell)),
                static_cast<off_t>(is_corner ? layout_.corner_bytes : layout_.edge_bytes));
}

void TileCanvas::settle() {
    if (durability_ == Durability::PowerCut && ::fdatasync(file_.get()) != 0)
        throw write_error("flushing the working file of a mask, " + path_, errno);
}

bool TileCanvas::is_set(Cell cell) const {
    std::byte byte{};
    read(cell_at(cell), {&byte, 1});
    return byte != std::byte{0};
}

void TileCanvas::set(Cell cell, const std::function<void()>& look) {
    static constexpr std::byte kSet{1};
    with_lock(kTableLock, [&] {
        if (!is_set(cell)) {
            write(cell_at(cell), {&kSet, 1});
            std::uint64_t set_cells = 0;
            read(offsetof(CanvasHeader, set_cells), std::as_writable_bytes(std::span(&set_cells, 1)));
            ++set_cells;
            write(offsetof(CanvasHeader, set_cells), std::as_bytes(std::span(&set_cells, 1)));
        }
        look();
    });
    settle();
}

bool TileCanvas::all_set() const {
    const std::uint32_t columns = tiling_.across().cells();
    std::vector<std::byte> bytes(columns);
    const bool has_seams = form_.classes > 0 && form_.tiles.overlap > 0;
    for (std::uint32_t row = 0; row < tiling_.down().cells(); row += has_seams ? 1 : 2) {
        read(cell_at({row, 0}), bytes);
        for (std::uint32_t column = 0; column < columns; column += has_seams ? 1 : 2)
            if (bytes[column] == std::byte{0}) return false;
    }
    return true;
}

void TileCanvas::lock(std::uint64_t at, short kind) const {
    struct flock range {};
    range.l_type = kind;
    range.l_whence = SEEK_SET;
    range.l_start = static_cast<off_t>(at);
    range.l_len = 1;
    while (::fcntl(file_.get(), F_OFD_SETLKW, &range) != 0)
        if (errno != EINTR)
            throw write_error(
                "locking the working file of a mask, " + path_ + " (--tile needs a file system with locks)", errno);
}

void TileCanvas::with_lock(std::uint64_t at, const std::function<void()>& work) {
    lock(at, F_WRLCK);
    struct Unlock {
        const TileCanvas& canvas;
        std::uint64_t at;
        ~Unlock() {
            try {
                canvas.lock(at, F_UNLCK);
            } catch (const Error&) {  // NOLINT(bugprone-empty-catch): it goes with the file
            }
        }
    } const unlock{*this, at};
    work();
}

void TileCanvas::with_seam(Cell cell, const std::function<void()>& work) { with_lock(cell_at(cell), work); }

void TileCanvas::with_commit(const std::function<void()>& work) { with_lock(kCommitLock, work); }

bool TileCanvas::is_committed() const {
    std::uint64_t committed = 0;
    read(offsetof(CanvasHeader, committed), std::as_writable_bytes(std::span(&committed, 1)));
    return committed != 0;
}

void TileCanvas::note_committed() {
    const std::uint64_t committed = 1;
    write(offsetof(CanvasHeader, committed), std::as_bytes(std::span(&committed, 1)));
    settle();
    failpoint("canvas.committed");
    // The file keeps its length, so that a late consumer does not meet an early end of file.
    ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(layout_.classes_at),
                static_cast<off_t>(layout_.bytes - layout_.classes_at));
}

bool TileCanvas::is_committed(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    CanvasHeader header;
    const CanvasHeader known;
    return file && ::pread(file.get(), &header, sizeof header, 0) == static_cast<ssize_t>(sizeof header) &&
           header.magic == known.magic && header.version == known.version && header.committed != 0;
}

std::string TileCanvas::name_of(const std::string& path) {
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    std::array<char, kCanvasNameAt + kMostCanvasNameBytes> begin{};
    const CanvasHeader known;
    if (!file || ::pread(file.get(), begin.data(), begin.size() - 1, 0) <= static_cast<ssize_t>(kCanvasNameAt) ||
        !std::ranges::equal(known.magic, std::span(begin).first(known.magic.size())))
        return {};
    return begin.data() + kCanvasNameAt;
}

}  // namespace offramp
