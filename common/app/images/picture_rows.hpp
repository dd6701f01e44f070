#pragma once

#include <cstdint>
#include <memory>

#include "common/app/images/geometry.hpp"
#include "common/app/images/picture_place.hpp"

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

}  // namespace offramp
