#include "consumer/processors/segmentation/tile_canvas.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "common/base/error.hpp"
#include "common/base/failpoint.hpp"
#include "common/base/utf8.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/files/held_output.hpp"
#include "consumer/sinks/files/write_error.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint32_t kCanvasVersion = 1;
constexpr std::uint64_t kTableLock = 0, kCommitLock = 1;

struct CanvasHeader {
    std::array<char, 8> magic{'O', 'F', 'F', 'R', 'T', 'I', 'L', 'E'};
    std::uint32_t version = kCanvasVersion;
    std::uint32_t width = 0, height = 0, tile = 0, overlap = 0, classes = 0;
    std::uint64_t committed = 0;  // 0: the mask has not been yet
};
static_assert(sizeof(CanvasHeader) == 40 && offsetof(CanvasHeader, committed) == 32);
constexpr std::size_t kNameAt = 64, kMostNameBytes = 1024;

std::uint64_t whole_pages(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

CanvasHeader header_of(const CanvasForm& form) {
    CanvasHeader header;
    header.width = form.picture.width;
    header.height = form.picture.height;
    header.tile = form.tiles.tile;
    header.overlap = form.tiles.overlap;
    header.classes = form.classes;
    return header;
}

}  // namespace

TileCanvas::TileCanvas(const std::string& path, const CanvasForm& form, Durability durability, std::string_view name)
    : path_(path), form_(form), tiling_(form.picture, form.tiles), durability_(durability) {
    const std::uint64_t overlap = form.tiles.overlap;
    const std::uint64_t score_bytes = std::uint64_t{form.classes} * sizeof(float);
    classes_at_ = whole_pages(kPage + std::uint64_t{tiling_.across().cells()} * tiling_.down().cells());
    scores_begin_ = whole_pages(classes_at_ + form.picture.pixels());
    corner_bytes_ = whole_pages(overlap * overlap * score_bytes);
    edge_bytes_ = whole_pages(overlap * form.tiles.tile * score_bytes);
    tile_bytes_ = 4 * corner_bytes_ + 4 * edge_bytes_;
    bytes_ = scores_begin_ + tiling_.tiles() * tile_bytes_;
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

// It has its name once its form is in it. Somebody else may be first.
void TileCanvas::make(std::string_view name) {
    AtomicFile file(path_, durability_, "the working file of a mask, ");
    const CanvasHeader header = header_of(form_);
    std::array<char, kNameAt + kMostNameBytes> begin{};
    std::memcpy(begin.data(), &header, sizeof header);
    const std::string_view shown = utf8_prefix(name, kMostNameBytes - 1);
    std::ranges::copy(shown, begin.begin() + kNameAt);
    file.write(std::as_bytes(std::span(begin)));
    file.set_size(bytes_);
    failpoint("canvas.made");
    file.commit_if_none();
}

void TileCanvas::require_form() const {
    CanvasHeader header;
    read(0, std::as_writable_bytes(std::span(&header, 1)));
    CanvasHeader wanted = header_of(form_);
    wanted.committed = header.committed;
    if (std::memcmp(&header, &wanted, sizeof header) == 0) return;
    throw Error(ErrorKind::BadInput,
                "the working file of a mask, " + path_ +
                    ", is of another picture size, tile, overlap or number of classes, or of another version: remove "
                    "it, and begin anew with --start-over");
}

std::uint64_t TileCanvas::cell_at(Cell cell) const {
    return kPage + std::uint64_t{cell.row} * tiling_.across().cells() + cell.column;
}

// Of the nine cells that a tile shows, row by row, the inner one has no scores: corners and edges take turns.
std::uint64_t TileCanvas::scores_at(std::uint32_t tile_row, std::uint32_t tile_column, Cell cell) const {
    const std::uint32_t down = cell.row + 1 - 2 * tile_row, across = cell.column + 1 - 2 * tile_column;
    expect(down < 3 && across < 3 && (down != 1 || across != 1), "a tile has scores in the seams around it");
    const std::uint32_t place = down * 3 + across;
    const std::uint32_t corners = (place + 1) / 2 - (place > 4 ? 1 : 0), edges = place / 2;
    return scores_begin_ + (std::uint64_t{tile_row} * tiling_.across().tiles() + tile_column) * tile_bytes_ +
           corners * corner_bytes_ + edges * edge_bytes_;
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
            throw Error(ErrorKind::BadInput, "the working file of a mask, " + path_ +
                                                 ", is shorter than it was made: somebody changed it. Begin anew with "
                                                 "--start-over");
        at += static_cast<std::uint64_t>(got);
        bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
}

void TileCanvas::put_classes(std::uint32_t x, std::uint32_t y, std::span<const std::uint8_t> ids) {
    write(classes_at_ + std::uint64_t{y} * form_.picture.width + x, std::as_bytes(ids));
}

void TileCanvas::take_rows(std::uint32_t first, std::uint32_t rows, std::vector<std::uint8_t>& ids) const {
    ids.resize(std::size_t{rows} * form_.picture.width);
    read(classes_at_ + std::uint64_t{first} * form_.picture.width, std::as_writable_bytes(std::span(ids)));
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
                static_cast<off_t>(is_corner ? corner_bytes_ : edge_bytes_));
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
        write(cell_at(cell), {&kSet, 1});
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
    // It keeps its length: whoever is late finds no end before its time.
    ::fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(classes_at_),
                static_cast<off_t>(bytes_ - classes_at_));
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
    std::array<char, kNameAt + kMostNameBytes> begin{};
    const CanvasHeader known;
    if (!file || ::pread(file.get(), begin.data(), begin.size() - 1, 0) <= static_cast<ssize_t>(kNameAt) ||
        !std::ranges::equal(known.magic, std::span(begin).first(known.magic.size())))
        return {};
    return begin.data() + kNameAt;
}

}  // namespace offramp
