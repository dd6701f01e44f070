#include "common/app/images/tiff.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/app/images/image_decode.hpp"
#include "common/app/images/image_format.hpp"
#include "common/app/images/tiff_handle.hpp"
#include "common/app/images/tiff_pixels.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"

namespace offramp {
namespace {

// The limit of one decoded row or tile, in all planes: a few kilobytes of file can claim more.
constexpr std::uint64_t kMostPieceBytes = std::uint64_t{256} << 20U;

// `claimed`: libtiff's size of a piece with `lines` lines. `pieces`: the number of pieces.
void check_piece(std::uint64_t line_bytes, std::uint32_t lines, std::size_t pieces, std::uint64_t claimed,
                 const char* what) {
    if (line_bytes > kMostPieceBytes / lines / pieces)
        throw UnreadableItem(std::string("TIFF with ") + what + " of more than " +
                             std::to_string(kMostPieceBytes >> 20U) +
                             " MiB. Rewrite it with smaller ones, for example with `tiffcp -t`");
    if (claimed != line_bytes * lines)
        throw UnreadableItem(std::string("damaged TIFF: its header and the size of its ") + what + " disagree");
}

}  // namespace

// If strips hold one sample each, colours use one handle per plane: all planes are read from the top in parallel.
// Numbers may have many planes: they are read one after the other.
class TiffPicture::Reader {
  public:
    Reader(PictureBytes bytes, std::uint64_t most_pixels, TiffPart part) : bytes_(std::move(bytes)) {
        planes_.push_back({.handle = std::make_unique<TiffHandle>(bytes_, 0)});
        const std::uint32_t page = go_to_page_in_full(first());
        TIFF* const tiff = first().get();
        size_ = {tiff_field<std::uint32_t>(tiff, TIFFTAG_IMAGEWIDTH),
                 tiff_field<std::uint32_t>(tiff, TIFFTAG_IMAGELENGTH)};
        if (size_.pixels() == 0) throw UnreadableItem("damaged TIFF: it has no pixels");
        check_pixels(size_, most_pixels);
        const auto turned = tiff_field<std::uint16_t>(tiff, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
        if (turned >= 1 && turned <= 8) orientation_ = static_cast<Orientation>(turned);
        if (part == TiffPart::Size) return;
        if (part == TiffPart::Numbers && orientation_ != Orientation::Upright)
            throw UnreadableItem("a rotated or mirrored TIFF of bands. Write it upright, without an Orientation tag");
        const TiffColors colours = read_tiff_layout(first(), part);
        has_alpha_ = colours.alpha.has_value();
        lines_ = std::make_unique<TiffLines>(part == TiffPart::Alpha ? colours.of_alpha() : colours);
        left_to_read_ = part == TiffPart::Colours ? size_.pixels() : 0;
        profile_ = profile_of(tiff);
        in_planes_ =
            lines_->colours().samples > 1 &&
            tiff_field<std::uint16_t>(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) == PLANARCONFIG_SEPARATE;
        if (in_planes_) seen_ = lines_->colours().seen_samples();
        if (libtiff().is_tiled(tiff) != 0)
            begin_tiles(tiff);
        else
            begin_strips(tiff);
        for (std::size_t plane = 1; plane < seen_.size() && !is_read_by_planes(); ++plane) {
            if (tile_.width == 0) planes_.push_back({.handle = std::make_unique<TiffHandle>(bytes_, page)});
            pieces_.emplace_back(pieces_.front().size());
        }
        // Ignore problems that libtiff reported and repaired.
        for (Plane& plane : planes_) plane.handle->forget();
    }

    ImageSize size() const { return size_; }
    ImageSize tile() const { return tile_; }
    Orientation orientation() const { return orientation_; }
    bool has_alpha() const { return has_alpha_; }
    std::uint32_t channels() const { return lines_->colours().samples; }
    std::size_t pixel_bytes() const { return lines_->colours().pixel_bytes(); }
    const std::vector<std::byte>& profile() const { return profile_; }

    void read(const PictureRect& part, std::uint8_t* pixels) {
        expect(part.left + std::uint64_t{part.size.width} <= size_.width &&
                   part.top + std::uint64_t{part.size.height} <= size_.height,
               "a part is inside its picture");
        for (Plane& plane : planes_) plane.handle->forget();  // damage of another part
        if (tile_.width != 0)
            read_tiles(part, pixels);
        else if (is_read_by_planes())
            read_planes(part, pixels);
        else
            read_strips(part, pixels);
        look_at_numbers(part.size.pixels());
    }

  private:
    struct Plane {
        std::unique_ptr<TiffHandle> handle;
        std::uint32_t next = 0;  // row of the strip that is open
    };

    static std::vector<std::byte> profile_of(TIFF* tiff) {
        std::uint32_t bytes = 0;
        const std::byte* data = nullptr;
        if (libtiff().get_field(tiff, TIFFTAG_ICCPROFILE, &bytes, &data) != 1) return {};
        const std::span profile(data, bytes);
        return is_rgb_profile(profile) ? std::vector<std::byte>(profile.begin(), profile.end())
                                       : std::vector<std::byte>();
    }

    // Warns once about as many pixels were read as the picture has: a part alone may be dark.
    void look_at_numbers(std::uint64_t pixels) {
        if (left_to_read_ == 0) return;
        left_to_read_ -= std::min(left_to_read_, pixels);
        if (left_to_read_ == 0) warn_of_16_bits(lines_->largest_of_16_bits());
    }

    TiffHandle& first() { return *planes_.front().handle; }
    bool is_numbers() const { return lines_->colours().kind == TiffColors::Kind::Numbers; }
    bool is_read_by_planes() const { return is_numbers() && in_planes_ && tile_.width == 0; }
    std::uint64_t line_bytes(std::uint32_t pixels) const {
        const TiffColors& colours = lines_->colours();
        return (std::uint64_t{pixels} * (in_planes_ ? 1 : colours.samples) * colours.bits + 7) / 8;
    }

    void begin_tiles(TIFF* tiff) {
        tile_ = {tiff_field<std::uint32_t>(tiff, TIFFTAG_TILEWIDTH),
                 tiff_field<std::uint32_t>(tiff, TIFFTAG_TILELENGTH)};
        if (tile_.pixels() == 0) throw UnreadableItem("damaged TIFF: its tiles have no pixels");
        const std::uint64_t line = line_bytes(tile_.width);
        check_piece(line, tile_.height, seen_.size(), libtiff().tile_size(tiff), "tiles");
        pieces_.emplace_back(static_cast<std::size_t>(line * tile_.height));
    }

    void begin_strips(TIFF* tiff) {
        const std::uint64_t line = line_bytes(size_.width);
        check_piece(line, 1, seen_.size(), libtiff().scanline_size(tiff), "rows");
        strip_rows_ = tiff_field<std::uint32_t>(tiff, TIFFTAG_ROWSPERSTRIP, size_.height);
        if (strip_rows_ == 0) strip_rows_ = size_.height;
        pieces_.emplace_back(static_cast<std::size_t>(line));
    }

    void read_tiles(const PictureRect& part, std::uint8_t* pixels) {
        const std::uint64_t right = part.left + std::uint64_t{part.size.width};
        const std::uint64_t bottom = part.top + std::uint64_t{part.size.height};
        for (std::uint64_t top = part.top - part.top % tile_.height; top < bottom; top += tile_.height)
            for (std::uint64_t left = part.left - part.left % tile_.width; left < right; left += tile_.width) {
                read_tile(static_cast<std::uint32_t>(left), static_cast<std::uint32_t>(top));
                const std::uint64_t from_x = std::max<std::uint64_t>(left, part.left);
                const std::uint64_t to_x = std::min<std::uint64_t>(left + tile_.width, right);
                const std::uint64_t to_y = std::min<std::uint64_t>(top + tile_.height, bottom);
                for (std::uint64_t y = std::max<std::uint64_t>(top, part.top); y < to_y; ++y)
                    put_line(line_bytes(tile_.width) * (y - top), static_cast<std::uint32_t>(from_x - left),
                             static_cast<std::uint32_t>(to_x - from_x),
                             pixels + ((y - part.top) * part.size.width + (from_x - part.left)) * pixel_bytes());
            }
    }

    // Decodes a tile to pieces_, and keeps it for the next part.
    void read_tile(std::uint32_t left, std::uint32_t top) {
        if (held_ == std::pair(left, top)) return;
        held_.reset();
        for (std::size_t piece = 0; piece < pieces_.size(); ++piece) {
            std::vector<std::uint8_t>& to = pieces_[piece];
            std::ranges::fill(to, std::uint8_t{0});  // pixels that a decoder omits must not show another tile
            if (libtiff().read_tile(first().get(), to.data(), left, top, 0, seen_[piece]) < 0 || first().is_damaged())
                first().refuse();
        }
        held_ = {left, top};
    }

    void read_strips(const PictureRect& part, std::uint8_t* pixels) {
        for (std::uint32_t y = 0; y < part.size.height; ++y) {
            for (std::size_t plane = 0; plane < planes_.size(); ++plane)
                read_row(planes_[plane], pieces_[plane], seen_[plane], part.top + y);
            put_line(0, part.left, part.size.width, pixels + std::size_t{y} * part.size.width * pixel_bytes());
        }
    }

    void read_planes(const PictureRect& part, std::uint8_t* pixels) {
        for (std::size_t plane = 0; plane < seen_.size(); ++plane) {
            planes_.front().next = 0;  // the handle is at another plane
            for (std::uint32_t y = 0; y < part.size.height; ++y) {
                read_row(planes_.front(), pieces_.front(), seen_[plane], part.top + y);
                lines_->to_numbers(pieces_.front().data(), part.left, part.size.width, seen_.size(),
                                   pixels + std::size_t{y} * part.size.width * pixel_bytes() + plane * sizeof(float));
            }
        }
    }

    // Compressed rows must be decoded in order from their strip's first row.
    void read_row(Plane& plane, std::vector<std::uint8_t>& to, std::uint16_t sample, std::uint32_t row) {
        const std::uint32_t begin = row - row % strip_rows_;
        const bool continues = plane.next > begin && plane.next <= row;
        std::uint32_t y = continues ? plane.next : begin;
        plane.next = 0;  // a failed strip starts again
        for (; y <= row; ++y) {
            std::ranges::fill(to, std::uint8_t{0});
            if (libtiff().read_scanline(plane.handle->get(), to.data(), y, sample) < 0 || plane.handle->is_damaged())
                plane.handle->refuse();
        }
        plane.next = row + 1;
    }

    void put_line(std::uint64_t offset, std::uint32_t from, std::uint32_t pixels, std::uint8_t* to) {
        if (is_numbers() && !in_planes_)
            return lines_->to_numbers(pieces_.front().data() + offset, std::size_t{from} * channels(),
                                      std::size_t{pixels} * channels(), 1, to);
        if (is_numbers()) {
            for (std::size_t plane = 0; plane < pieces_.size(); ++plane)
                lines_->to_numbers(pieces_[plane].data() + offset, from, pixels, pieces_.size(),
                                   to + plane * sizeof(float));
            return;
        }
        if (!in_planes_) {
            lines_->to_rgb(pieces_.front().data() + offset, from, pixels, to);
            return;
        }
        plane_lines_.clear();
        for (const auto& piece : pieces_) plane_lines_.push_back(piece.data() + offset);
        lines_->planes_to_rgb(plane_lines_, from, pixels, to);
    }

    PictureBytes bytes_;
    ImageSize size_, tile_{0, 0};  // no tile: strips
    std::uint32_t strip_rows_ = 0;
    Orientation orientation_ = Orientation::Upright;
    bool in_planes_ = false, has_alpha_ = false;
    std::vector<std::byte> profile_;
    std::uint64_t left_to_read_ = 0;  // pixels to read before the check of 16-bit values
    std::unique_ptr<TiffLines> lines_;
    std::vector<std::uint16_t> seen_{0};             // planes to read; one entry if samples are interleaved
    std::vector<Plane> planes_;                      // one per entry of seen_ for strips, else one
    std::vector<std::vector<std::uint8_t>> pieces_;  // a row or a tile for each entry of seen_
    std::optional<std::pair<std::uint32_t, std::uint32_t>> held_;  // left and top of the tile in pieces_
    std::vector<const std::uint8_t*> plane_lines_;
};

TiffPicture::TiffPicture(PictureBytes bytes, std::uint64_t most_pixels, TiffPart part)
    : reader_(std::make_unique<Reader>(std::move(bytes), most_pixels, part)) {}
TiffPicture::TiffPicture(TiffPicture&&) noexcept = default;
TiffPicture& TiffPicture::operator=(TiffPicture&&) noexcept = default;
TiffPicture::~TiffPicture() = default;

ImageSize TiffPicture::size() const { return reader_->size(); }
Orientation TiffPicture::orientation() const { return reader_->orientation(); }
bool TiffPicture::has_alpha() const { return reader_->has_alpha(); }
std::uint32_t TiffPicture::channels() const { return reader_->channels(); }
std::size_t TiffPicture::pixel_bytes() const { return reader_->pixel_bytes(); }
std::vector<std::byte> TiffPicture::profile() const { return reader_->profile(); }
bool TiffPicture::in_tiles() const { return reader_->tile().width != 0; }
ImageSize TiffPicture::tile() const { return reader_->tile(); }
void TiffPicture::read(const PictureRect& part, std::uint8_t* pixels) { reader_->read(part, pixels); }

}  // namespace offramp
