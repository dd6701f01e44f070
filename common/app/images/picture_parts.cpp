#include "common/app/images/picture_parts.hpp"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/app/images/image_decode.hpp"
#include "common/app/images/image_format.hpp"
#include "common/app/images/jpeg.hpp"
#include "common/app/images/orientation.hpp"
#include "common/app/images/picture_bytes.hpp"
#include "common/app/images/png.hpp"
#include "common/app/images/tiff.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/app/images/whole_formats.hpp"
#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t kFront = std::uint64_t{256} << 10U;
constexpr std::uint64_t kLongFront = std::uint64_t{64}
                                     << 20U;  // limit for a file's beginning with profiles, previews and comments
constexpr std::size_t kInterlaceAt = 28;      // the byte of a PNG's header

// Decodes at the first read: often only the size is needed.
class HeldWhole final : public PictureRows {
  public:
    HeldWhole(PicturePlace place, ImageSize size) : PictureRows(size), place_(std::move(place)) {}

    void read(std::uint32_t rows, std::uint8_t* rgb) override {
        expect(rows <= size().height - read_, "no more rows are read than there are");
        if (rows == 0) return;
        if (read_ == 0 && !(ImageDecoder().decode_file_in_full(place_, rgb_) == size()))
            throw UnreadableItem("the picture changed while it was read");
        const std::size_t row_bytes = std::size_t{size().width} * 3;
        std::memcpy(rgb, rgb_.data() + read_ * row_bytes, rows * row_bytes);
        read_ += rows;
        if (read_ == size().height) rgb_ = {};
    }

  private:
    PicturePlace place_;
    std::vector<std::uint8_t> rgb_;
    std::uint32_t read_ = 0;
};

std::unique_ptr<PictureRows> held_whole(const PicturePlace& place, ImageSize size, const char* what) {
    check_held_whole(size, what);
    return std::make_unique<HeldWhole>(place, size);
}

class RowsOfJpeg final : public PictureRows {
  public:
    explicit RowsOfJpeg(std::unique_ptr<JpegPicture> picture)
        : PictureRows(picture->size()), picture_(std::move(picture)) {}

    void read(std::uint32_t rows, std::uint8_t* rgb) override { picture_->read(rows, rgb); }

  private:
    std::unique_ptr<JpegPicture> picture_;
};

struct RowReading : PngReading {
    FileWindow* file;
};

void read_from_window(png_structp png, png_bytep to, std::size_t bytes) {
    auto* const reading = static_cast<RowReading*>(png_get_io_ptr(png));
    while (bytes > 0) {
        if (reading->left == 0) {
            const auto piece = reading->file->next_piece();
            reading->next = piece.data();
            reading->left = piece.size();
            reading->ran_out = piece.empty();
            if (reading->ran_out) png_error(png, "the file ends too early");
        }
        const std::size_t taken = std::min(bytes, reading->left);
        std::memcpy(to, reading->next, taken);
        to += taken;
        bytes -= taken;
        reading->next += taken;
        reading->left -= taken;
    }
}

// Contains everything that may longjmp, in frames without objects. Returns false on errors: `reading` has the reason.
bool begin_picture(png_structp png, png_infop info, RowReading* reading, std::uint32_t width, std::uint32_t height) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    png_set_read_fn(png, reading, read_from_window);
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    begin_rows(png, info, reading, width, height, PngChannels::Rgb);
    return true;
}

bool read_rows(png_structp png, std::uint32_t rows, std::size_t row_bytes, std::uint8_t* rgb) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    for (std::uint32_t row = 0; row < rows; ++row) png_read_row(png, rgb + row * row_bytes, nullptr);
    return true;
}

bool read_end(png_structp png) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    png_read_end(png, nullptr);
    return true;
}

class RowsOfPng final : public PictureRows {
  public:
    RowsOfPng(FileWindow file, ImageSize size)
        : PictureRows(size),
          file_(std::move(file)),
          reading_{{.next = nullptr, .left = 0, .ran_out = false, .message = {}, .largest = 0}, &file_},
          png_(make_png_reader(&reading_)),
          info_(png_ == nullptr ? nullptr : png_create_info_struct(png_)) {
        if (info_ != nullptr) return;
        png_destroy_read_struct(&png_, nullptr, nullptr);
        throw std::bad_alloc();
    }
    RowsOfPng(const RowsOfPng&) = delete;
    RowsOfPng& operator=(const RowsOfPng&) = delete;
    ~RowsOfPng() override { png_destroy_read_struct(&png_, &info_, nullptr); }

    void read(std::uint32_t rows, std::uint8_t* rgb) override {
        expect(rows <= size().height - read_, "no more rows are read than there are");
        if (rows == 0) return;
        // Decoding begins here, because often only the size is needed.
        if (read_ == 0 && !begin_picture(png_, info_, &reading_, size().width, size().height)) refuse();
        if (!read_rows(png_, rows, std::size_t{size().width} * 3, rgb)) refuse();
        read_ += rows;
        if (read_ < size().height) return;
        if (!read_end(png_)) refuse();
        warn_of_16_bits(reading_.largest);
    }

  private:
    [[noreturn]] void refuse() const {
        if (!file_.problem().empty()) throw UnreadableItem(file_.problem());
        throw UnreadableItem(png_problem(reading_, file_.size()));
    }

    FileWindow file_;
    RowReading reading_;
    png_structp png_;
    png_infop info_;
    std::uint32_t read_ = 0;
};

class RowsOfTiff final : public PictureRows {
  public:
    RowsOfTiff(TiffPicture picture, std::uint64_t most_held)
        : PictureRows(picture.size()), picture_(std::move(picture)), most_held_(most_held) {}

    void read(std::uint32_t rows, std::uint8_t* pixels) override {
        expect(rows <= size().height - next_, "no more rows are read than there are");
        if (!picture_.in_tiles()) {
            picture_.read({.left = 0, .top = next_, .size = {size().width, rows}}, pixels);
            next_ += rows;
            return;
        }
        const std::size_t row_bytes = size().width * picture_.pixel_bytes();
        for (; rows > 0; --rows, ++next_, pixels += row_bytes) {
            if (next_ < held_from_ || next_ - held_from_ >= held_rows_) hold();
            std::memcpy(pixels, held_.data() + (next_ - held_from_) * row_bytes, row_bytes);
        }
    }

    void pass_over(std::uint32_t rows) override {
        expect(rows <= size().height - next_, "no more rows are passed over than there are");
        next_ += rows;
    }

  private:
    // Decodes the next row and those after it in the same row of tiles, up to the memory limit.
    void hold() {
        const std::uint32_t height = picture_.tile().height;
        const std::uint64_t row_bytes = size().width * picture_.pixel_bytes();
        const std::uint64_t may = std::max<std::uint64_t>(most_held_ / row_bytes, 1);
        const std::uint32_t are = std::min(height - next_ % height, size().height - next_);
        const ImageSize part{size().width, static_cast<std::uint32_t>(std::min<std::uint64_t>(may, are))};
        held_rows_ = 0;
        held_.resize(part.height * row_bytes);
        picture_.read({.left = 0, .top = next_, .size = part}, held_.data());
        held_from_ = next_;
        held_rows_ = part.height;
    }

    TiffPicture picture_;
    std::uint64_t most_held_;
    std::uint32_t next_ = 0;
    std::uint32_t held_from_ = 0, held_rows_ = 0;
    std::vector<std::uint8_t> held_;  // the decoded rows
};

class RegionsOfTiff final : public PictureRegions {
  public:
    explicit RegionsOfTiff(TiffPicture picture)
        : PictureRegions(upright_size(picture.size(), picture.orientation())), picture_(std::move(picture)) {}

    void read(const PictureRect& part, std::uint8_t* pixels) override {
        const Orientation orientation = picture_.orientation();
        if (orientation == Orientation::Upright) {
            picture_.read(part, pixels);
            return;
        }
        const PictureRect stored = stored_part(part, picture_.size(), orientation);
        pixels_.resize(stored.size.rgb_bytes());
        picture_.read(stored, pixels_.data());
        bring_upright(pixels_.data(), stored.size, orientation, pixels);
    }

  private:
    TiffPicture picture_;
    std::vector<std::uint8_t> pixels_;
};

TiffPicture open_tiff(PictureBytes bytes, PixelForm form) {
    TiffPicture picture(std::move(bytes), kMostTiledPixels, form.channels == 0 ? TiffPart::Colours : TiffPart::Numbers);
    if (form.channels != 0 && picture.channels() != form.channels)
        throw UnreadableItem("TIFF with " + std::to_string(picture.channels()) + " bands, and the model takes " +
                             std::to_string(form.channels) +
                             ". Leave it out, or write its bands into a file of that many (gdal_translate -b)");
    return picture;
}

void require_tiff(ImageFormat format, PixelForm form) {
    if (form.channels == 0 || format == ImageFormat::Tiff || format == ImageFormat::Unknown) return;
    throw UnreadableItem("a " + std::string(to_string(format)) + " image; a model that takes " +
                         std::to_string(form.channels) + " bands (input-shape) reads TIFF files only");
}

}  // namespace

void PictureRows::pass_over(std::uint32_t rows) {
    std::vector<std::uint8_t> row(std::size_t{size().width} * 3);
    for (; rows > 0; --rows) read(1, row.data());
}

std::unique_ptr<PictureRows> open_picture_rows(const PicturePlace& place, PixelForm form) {
    FileWindow file(place);
    std::vector<std::byte> front = file.front(kFront);
    const ImageFormat format = image_format(front);
    require_tiff(format, form);
    if (format == ImageFormat::Png) {
        const ImageSize size = read_png_size(front, kMostTiledPixels);
        const auto orientation = or_unreadable([&] { return png_orientation(picture_bytes(place)); });
        if (orientation != Orientation::Upright)
            return held_whole(place, upright_size(size, orientation), "a rotated or mirrored PNG");
        return front[kInterlaceAt] == std::byte{0} ? rows_of_png(std::move(file), size)
                                                   : held_whole(place, size, "an interlaced PNG");
    }
    if (format == ImageFormat::Jpeg) {
        if (!reaches_first_scan(front)) front = file.front(kLongFront);
        const Orientation orientation = jpeg_orientation(front);
        auto rows = rows_of_jpeg(std::move(file));
        if (orientation == Orientation::Upright) return rows;
        return held_whole(place, upright_size(rows->size(), orientation), "a rotated or mirrored JPEG");
    }
    if (format == ImageFormat::Webp) {
        // Its size is before the pixels, its orientation after them.
        check_held_whole(read_webp_size(front, kMostTiledPixels), "a WebP");
        return held_whole(place, ImageDecoder().size_of_file(place), "a WebP");
    }
    if (format == ImageFormat::Bmp) return held_whole(place, read_bmp_size(front, kMostTiledPixels), "a BMP");
    if (format == ImageFormat::Gif)
        return held_whole(place, read_gif_size(file.front(kLongFront), kMostTiledPixels), "a GIF");
    if (format == ImageFormat::Tiff) {
        TiffPicture picture = open_tiff(picture_bytes(place), form);
        if (picture.orientation() == Orientation::Upright) return rows_of_tiff(std::move(picture));
        return held_whole(place, upright_size(picture.size(), picture.orientation()), "a rotated or mirrored TIFF");
    }
    refuse_format(format);
}

std::unique_ptr<PictureRows> rows_of_jpeg(FileWindow file) {
    auto picture = std::make_unique<JpegPicture>(std::move(file));
    check_pixels(picture->size(), kMostTiledPixels);
    if (picture->has_many_scans()) check_held_whole(picture->size(), "a progressive JPEG");
    return std::make_unique<RowsOfJpeg>(std::move(picture));
}

std::unique_ptr<PictureRows> rows_of_png(FileWindow file, ImageSize size) {
    return std::make_unique<RowsOfPng>(std::move(file), size);
}

std::unique_ptr<PictureRows> rows_of_tiff(TiffPicture picture, std::uint64_t most_held) {
    return std::make_unique<RowsOfTiff>(std::move(picture), most_held);
}

std::unique_ptr<PictureRegions> open_picture_regions(const PicturePlace& place, PixelForm form) {
    PictureBytes bytes = picture_bytes(place);
    std::vector<std::byte> front(kMagicBytes);
    front.resize(or_unreadable([&] { return bytes.read_at(0, front); }));
    if (image_format(front) != ImageFormat::Tiff) return nullptr;
    TiffPicture picture = open_tiff(std::move(bytes), form);
    if (!picture.in_tiles()) return nullptr;
    return std::make_unique<RegionsOfTiff>(std::move(picture));
}

}  // namespace offramp
