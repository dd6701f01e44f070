#include "common/app/images/picture_rows.hpp"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "common/app/images/bmp.hpp"
#include "common/app/images/file_window.hpp"
#include "common/app/images/gif.hpp"
#include "common/app/images/image_decode.hpp"
#include "common/app/images/jpeg.hpp"
#include "common/app/images/orientation.hpp"
#include "common/app/images/png.hpp"
#include "common/app/images/rows_of_jpeg.hpp"
#include "common/app/images/rows_of_png.hpp"
#include "common/app/images/rows_of_tiff.hpp"
#include "common/app/images/tiling.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/app/images/webp.hpp"
#include "common/base/error.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t kFront = std::uint64_t{256} << 10U;
constexpr std::uint64_t kLongFront = std::uint64_t{64} << 20U;  // of a file with profiles, previews and comments
constexpr std::size_t kInterlaceAt = 28;                        // the byte of a PNG's header

// Decoded when the first row is asked for: often only the size is.
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

}  // namespace

void PictureRows::pass_over(std::uint32_t rows) {
    std::vector<std::uint8_t> row(std::size_t{size().width} * 3);
    for (; rows > 0; --rows) read(1, row.data());
}

std::unique_ptr<PictureRows> open_picture_rows(const PicturePlace& place) {
    FileWindow file(place);
    std::vector<std::byte> front = file.front(kFront);
    const ImageFormat format = image_format(front);
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
        TiffPicture picture(picture_bytes(place), kMostTiledPixels);
        if (picture.orientation() == Orientation::Upright) return rows_of_tiff(std::move(picture));
        return held_whole(place, upright_size(picture.size(), picture.orientation()), "a rotated or mirrored TIFF");
    }
    refuse_format(format);
}

}  // namespace offramp
