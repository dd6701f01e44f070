#pragma once

#include <cstdint>
#include <memory>

#include "common/app/images/geometry.hpp"
#include "common/app/images/picture_place.hpp"

namespace offramp {

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
