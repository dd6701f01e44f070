#pragma once

#include <cstdint>
#include <memory>

#include "common/app/images/geometry.hpp"
#include "common/app/images/picture_bytes.hpp"
#include "common/app/images/tiff.hpp"

namespace offramp {

// The pixels to decode. 0 channels: 8-bit RGB. Otherwise TIFF files of that many channels, as numbers in float32, a
// pixel's channels together; all other pictures are unreadable.
struct PixelForm {
    std::uint32_t channels = 0;

    std::size_t pixel_bytes() const { return channels == 0 ? 3 : channels * sizeof(float); }
    bool operator==(const PixelForm&) const = default;
};

// Decodes a picture row by row from its top, upright, to 8-bit RGB: the same pixels as ImageDecoder. PNG, JPEG and TIFF
// are decoded on demand, at any size. Other pictures are held in memory as a whole, and so have at most
// kMaxImagePixels: interlaced PNG, JPEG with several scans (progressive), WebP, BMP, GIF, and pictures that must be
// turned or mirrored. Thread: one at a time. Blocks: on the disk. Errors: UnreadableItem with the reason; do not use
// the object after an error.
class PictureRows {
  public:
    virtual ~PictureRows() = default;
    // Decodes the next `rows` rows of size().width pixels each.
    virtual void read(std::uint32_t rows, std::uint8_t* pixels) = 0;
    // Skips the next `rows` rows.
    virtual void pass_over(std::uint32_t rows);
    ImageSize size() const { return size_; }

  protected:
    explicit PictureRows(ImageSize size) : size_(size) {}

  private:
    ImageSize size_;
};

// Errors: UnreadableItem: an unsupported picture, more than kMostTiledPixels, or more than kMaxImagePixels if the
// picture must be held as a whole.
std::unique_ptr<PictureRows> open_picture_rows(const PicturePlace& place, PixelForm form = {});

// Opens the rows of a JPEG file that is stored upright. Errors: those of PictureRows; more than kMaxImagePixels if the
// decoder must hold the whole picture.
std::unique_ptr<PictureRows> rows_of_jpeg(FileWindow file);

// Opens the rows of a PNG file that is not interlaced. `size`: the result of read_png_size(). Errors: those of
// PictureRows.
std::unique_ptr<PictureRows> rows_of_png(FileWindow file, ImageSize size);

constexpr std::uint64_t kMostHeldOfTiff = std::uint64_t{256} << 20U;

// Opens the rows of a TIFF that is stored upright. Skipped rows are not decoded if a later strip begins after them. For
// a tiled TIFF, one row of tiles is kept in memory, at most `most_held` bytes of it; if it is larger, its tiles are
// decoded several times. Errors: those of PictureRows.
std::unique_ptr<PictureRows> rows_of_tiff(TiffPicture picture, std::uint64_t most_held = kMostHeldOfTiff);

// Decodes any part of a picture by itself, upright: the same pixels as PictureRows. Thread: one at a time. Blocks: on
// the disk. Errors: UnreadableItem with the reason; other parts may still be read.
class PictureRegions {
  public:
    virtual ~PictureRegions() = default;
    // Decodes a part inside the picture. `pixels` must hold all its pixels.
    virtual void read(const PictureRect& part, std::uint8_t* pixels) = 0;
    ImageSize size() const { return size_; }

  protected:
    explicit PictureRegions(ImageSize size) : size_(size) {}

  private:
    ImageSize size_;
};

// Opens a tiled TIFF of at most kMostTiledPixels. Returns null for any other picture: read that by rows. Errors:
// UnreadableItem.
std::unique_ptr<PictureRegions> open_picture_regions(const PicturePlace& place, PixelForm form = {});

}  // namespace offramp
