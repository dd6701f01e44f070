#pragma once

#include <cstdint>
#include <memory>

#include "common/app/images/geometry.hpp"
#include "common/app/images/picture_bytes.hpp"
#include "common/app/images/tiff.hpp"

namespace offramp {

// A picture's rows, one after the other from its top, upright, as 8-bit RGB: the pixels that ImageDecoder gives. PNG,
// JPEG and TIFF are decoded as rows are asked for, whatever their size. Held whole, and so of at most kMaxImagePixels,
// are: interlaced PNG, JPEG of several scans (progressive), WebP, BMP, GIF, and pictures that are turned or mirrored to
// be upright. Thread: one at a time. Blocks: on the disk. Errors: UnreadableItem with the reason; after one, nothing
// can be read.
class PictureRows {
  public:
    virtual ~PictureRows() = default;
    // The next `rows` of them, each size().width pixels.
    virtual void read(std::uint32_t rows, std::uint8_t* rgb) = 0;
    // Goes on behind the next `rows` of them.
    virtual void pass_over(std::uint32_t rows);
    ImageSize size() const { return size_; }

  protected:
    explicit PictureRows(ImageSize size) : size_(size) {}

  private:
    ImageSize size_;
};

// Errors: UnreadableItem: no picture that is read, or one of more than kMostTiledPixels, or of more than can be held
// where it is held whole.
std::unique_ptr<PictureRows> open_picture_rows(const PicturePlace& place);

// Rows of a JPEG file that is stored upright. Errors: those of PictureRows; more than kMaxImagePixels if the decoder
// must hold the whole picture.
std::unique_ptr<PictureRows> rows_of_jpeg(FileWindow file);

// Rows of a PNG file that is not interlaced. `size`: read_png_size() of it. Errors: those of PictureRows.
std::unique_ptr<PictureRows> rows_of_png(FileWindow file, ImageSize size);

constexpr std::uint64_t kMostHeldOfTiff = std::uint64_t{256} << 20U;

// Rows of a TIFF that is stored upright. Skipped rows are not decoded, as far as strips begin after them. In tiles,
// rows of one row of them are held, of so many bytes at most: where it has more, its tiles are decoded several times.
// Errors: those of PictureRows.
std::unique_ptr<PictureRows> rows_of_tiff(TiffPicture picture, std::uint64_t most_held = kMostHeldOfTiff);

// A picture of which any part can be decoded by itself, upright, as 8-bit RGB: the pixels that ImageDecoder gives.
// Thread: one at a time. Blocks: on the disk. Errors: UnreadableItem with the reason; other parts may be read then.
class PictureRegions {
  public:
    virtual ~PictureRegions() = default;
    // A part inside the picture: part.size.rgb_bytes().
    virtual void read(const PictureRect& part, std::uint8_t* rgb) = 0;
    ImageSize size() const { return size_; }

  protected:
    explicit PictureRegions(ImageSize size) : size_(size) {}

  private:
    ImageSize size_;
};

// Opens a tiled TIFF of at most kMostTiledPixels. Null for any other picture, which is read by rows. Errors:
// UnreadableItem.
std::unique_ptr<PictureRegions> open_picture_regions(const PicturePlace& place);

}  // namespace offramp
