#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/app/images/geometry.hpp"

namespace offramp {

// The operation that makes a stored picture upright. The numbers are the values of EXIF tag 274.
enum class Orientation : std::uint8_t {
    Upright = 1,
    MirrorAcross = 2,  // left and right change places
    HalfTurn = 3,
    MirrorUpsideDown = 4,
    Transpose = 5,  // rows become columns
    QuarterClockwise = 6,
    Transverse = 7,  // a transpose along the other diagonal
    QuarterCounterclockwise = 8,
};

// The orientation in a JPEG file's EXIF data. Upright if the data is missing or damaged, or the value is undefined:
// wrong metadata does not make a picture unreadable.
Orientation jpeg_orientation(std::span<const std::byte> file);
// The same for bare EXIF data: a TIFF header and its directories.
Orientation exif_orientation(std::span<const std::byte> tiff);

// The size of the upright picture. Also converts an upright size to the stored size.
ImageSize upright_size(ImageSize stored, Orientation orientation);

// The position of a part of the upright picture in the stored picture.
PictureRect stored_part(const PictureRect& part, ImageSize stored, Orientation orientation);

// The position of the upright picture's first pixel in the stored picture, and the distances to the next pixel across
// and down, in bytes of pixels of `pixel_bytes` bytes.
struct UprightWalk {
    std::int64_t first = 0, across = 0, down = 0;
};
UprightWalk walk_upright(ImageSize stored, Orientation orientation, std::int64_t pixel_bytes);

// Turns an RGB picture upright. `from` and `to` hold stored.rgb_bytes() each, and must not overlap. Thread: any.
void bring_upright(const std::uint8_t* from, ImageSize stored, Orientation orientation, std::uint8_t* to);
// The same for a plane with one byte per pixel.
void bring_plane_upright(const std::uint8_t* from, ImageSize stored, Orientation orientation, std::uint8_t* to);

}  // namespace offramp
