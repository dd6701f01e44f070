#include "common/app/images/canvas_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/base/error.hpp"
#include "common/base/held_folder.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t kPage = 4096;

std::uint64_t whole_pages(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

bool read_at(int file, std::uint64_t at, std::span<std::byte> bytes, const std::string& path) {
    while (!bytes.empty()) {
        const ssize_t got = ::pread(file, bytes.data(), bytes.size(), static_cast<off_t>(at));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw SystemError("reading the working file of a mask, " + path, errno, "Check its file system");
        if (got == 0) return false;
        at += static_cast<std::uint64_t>(got);
        bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
    return true;
}

std::uint64_t length_of(int file) {
    struct stat facts {};
    return ::fstat(file, &facts) == 0 ? static_cast<std::uint64_t>(facts.st_size) : 0;
}

// True for sizes that a Tiling accepts.
bool is_possible(const CanvasForm& form) {
    return form.picture.pixels() > 0 && form.picture.pixels() <= kMostTiledPixels && form.tiles.tile > 0 &&
           2 * std::uint64_t{form.tiles.overlap} < form.tiles.tile;
}

}  // namespace

CanvasHeader CanvasHeader::of(const CanvasForm& form) {
    CanvasHeader header;
    header.width = form.picture.width;
    header.height = form.picture.height;
    header.tile = form.tiles.tile;
    header.overlap = form.tiles.overlap;
    header.classes = form.classes;
    header.stamp = form.stamp;
    return header;
}

CanvasForm CanvasHeader::form() const {
    return {
        .picture = {width, height}, .tiles = {.tile = tile, .overlap = overlap}, .classes = classes, .stamp = stamp};
}

CanvasLayout::CanvasLayout(const CanvasForm& form) : cells_at(kPage) {
    const Tiling tiling(form.picture, form.tiles);
    const std::uint64_t overlap = form.tiles.overlap;
    const std::uint64_t score_bytes = std::uint64_t{form.classes} * sizeof(float);
    classes_at = whole_pages(cells_at + std::uint64_t{tiling.across().cells()} * tiling.down().cells());
    scores_at = whole_pages(classes_at + form.picture.pixels());
    corner_bytes = whole_pages(overlap * overlap * score_bytes);
    edge_bytes = whole_pages(overlap * form.tiles.tile * score_bytes);
    tile_bytes = 4 * corner_bytes + 4 * edge_bytes;
    bytes = scores_at + tiling.tiles() * tile_bytes;
}

std::string canvas_folder(const std::string& output) { return output + "/" + std::string(kReservedPrefix) + "tiles"; }

std::string canvas_name(std::string_view mask) {
    const XXH128_hash_t hash = XXH3_128bits(mask.data(), mask.size());
    std::array<char, 40> text{};
    std::snprintf(text.data(), text.size(), "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                  static_cast<unsigned long long>(hash.low64));
    return text.data();
}

FoundCanvas::FoundCanvas(std::string path, const CanvasForm& wanted)
    : path_(std::move(path)), file_(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {
    if (!file_ && errno != ENOENT && errno != ENOTDIR)
        throw SystemError("opening the working file of a mask, " + path_, errno,
                          "Make it writable for this user, or remove it");
    if (!file_) return;
    CanvasHeader header;
    const CanvasHeader known;
    if (!read_at(file_.get(), 0, std::as_writable_bytes(std::span(&header, 1)), path_) || header.magic != known.magic ||
        header.version != known.version)
        return;
    is_committed_ = header.committed == 1;
    CanvasForm form = header.form();
    const std::uint32_t classes = std::exchange(form.classes, wanted.classes);
    if (!(form == wanted) || !is_possible(form)) return;
    form.classes = classes;
    matches_form_ = length_of(file_.get()) == CanvasLayout(form).bytes && read_cells(form, header.set_cells);
}

// False if there is an invalid byte, or a cell was cleared: its data may be incomplete.
bool FoundCanvas::read_cells(const CanvasForm& form, std::uint64_t set_cells) {
    const Tiling tiling(form.picture, form.tiles);
    rows_ = tiling.down().cells();
    columns_ = tiling.across().cells();
    has_seams_ = form.classes > 0 && form.tiles.overlap > 0;
    cells_.resize(std::size_t{rows_} * columns_);
    return read_at(file_.get(), CanvasLayout(form).cells_at, cells_, path_) &&
           std::ranges::all_of(cells_, [](std::byte cell) { return cell <= std::byte{1}; }) &&
           static_cast<std::uint64_t>(std::ranges::count(cells_, std::byte{1})) >= set_cells;
}

bool FoundCanvas::is_full() const {
    const std::uint32_t step = has_seams_ ? 1 : 2;
    for (std::uint32_t row = 0; row < rows_; row += step)
        for (std::uint32_t column = 0; column < columns_; column += step)
            if (!is_set({row, column})) return false;
    return true;
}

// True if the seam is not summed although all its tiles are marked as written: none of them would be delivered again.
bool FoundCanvas::is_lost(CanvasCell seam) const {
    if (is_set(seam)) return false;
    const auto [first_row, rows] = tiles_of_cell(seam.row);
    const auto [first_column, columns] = tiles_of_cell(seam.column);
    for (std::uint32_t row = first_row; row < first_row + rows; ++row)
        for (std::uint32_t column = first_column; column < first_column + columns; ++column)
            if (!is_set(inner_cell(row, column))) return false;
    return true;
}

bool FoundCanvas::has(std::uint32_t tile_row, std::uint32_t tile_column) const {
    const CanvasCell inner = inner_cell(tile_row, tile_column);
    if (!is_set(inner)) return false;
    if (!has_seams_) return true;
    for (std::uint32_t row = inner.row - std::min(inner.row, 1U); row < std::min(inner.row + 2, rows_); ++row)
        for (std::uint32_t column = inner.column - std::min(inner.column, 1U);
             column < std::min(inner.column + 2, columns_); ++column)
            if (is_lost({row, column})) return false;
    return true;
}

// A process that finds the same file meanwhile waits for its lock. Then the name refers to another file, or to none.
void FoundCanvas::remove() {
    struct flock range {};
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    range.l_len = 1;
    while (::fcntl(file_.get(), F_OFD_SETLKW, &range) != 0)
        if (errno != EINTR) break;  // a file system without locks: --tile is refused there by a consumer
    struct stat own {
    }, named{};
    if (::fstat(file_.get(), &own) == 0 && ::lstat(path_.c_str(), &named) == 0 && own.st_ino == named.st_ino &&
        own.st_dev == named.st_dev && ::unlink(path_.c_str()) != 0 && errno != ENOENT)
        throw SystemError("removing the working file of a mask, " + path_, errno,
                          "Make its folder writable for this user, or remove the file", ErrorKind::CannotWrite);
    file_.reset();
}

}  // namespace offramp
