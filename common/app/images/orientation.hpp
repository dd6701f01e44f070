#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/app/images/geometry.hpp"

namespace offramp {

// How a stored picture is brought upright, as cameras note it (tag 274 of EXIF; the numbers are its values).
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

// The orientation in a JPEG file's EXIF. Upright when it has none, when that is damaged, and for values that the
// standard does not know: wrong metadata does not make a picture unreadable.
Orientation jpeg_orientation(std::span<const std::byte> file);
// The same of EXIF data alone: a TIFF header and its directories.
Orientation exif_orientation(std::span<const std::byte> tiff);

// The size that a picture has when it is upright; also turns an upright size into the stored one.
ImageSize upright_size(ImageSize stored, Orientation orientation);

// The place of a part of the upright picture in the stored one.
PictureRect stored_part(const PictureRect& part, ImageSize stored, Orientation orientation);

// Brings an RGB picture upright. `from` has stored.rgb_bytes(), `to` as many; they do not overlap. Thread: any.
void bring_upright(const std::uint8_t* from, ImageSize stored, Orientation orientation, std::uint8_t* to);
// The same of a plane of a byte a pixel.
void bring_plane_upright(const std::uint8_t* from, ImageSize stored, Orientation orientation, std::uint8_t* to);

}  // namespace offramp
