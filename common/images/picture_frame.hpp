#pragma once

#include <cstdint>

#include "common/images/image_size.hpp"

namespace offramp {

// Which pixels of a picture make one of a resized one.
enum class Interpolation : std::uint8_t { Bilinear, Bicubic };

// A part of a picture that was brought to another size: as many pixels as somebody wants, from `left`, `top` on. Sides are long where a picture of
// one line is enlarged.
struct ResizedPart {
    std::uint64_t width = 0;  // of the whole picture, in its new size
    std::uint64_t height = 0;
    std::uint64_t left = 0;
    std::uint64_t top = 0;

    bool operator==(const ResizedPart&) const = default;
};

// Pixels of a picture.
struct PictureRect {
    std::uint32_t left = 0;
    std::uint32_t top = 0;
    ImageSize size;

    bool operator==(const PictureRect&) const = default;
};

// What a model sees of an upright picture: all of it, squeezed into `size`; or, with a `shorter_side`, its middle. Its shorter side is then brought
// to that length, its proportions kept, and `size` is cut out, to the pixel where torchvision's Resize and CenterCrop do.
struct PictureFrame {
    PictureFrame(ImageSize all) : size(all) {}  // not explicit: a size is the frame of all of a picture
    PictureFrame(ImageSize part, std::uint32_t shorter, Interpolation way = Interpolation::Bilinear)
        : size(part), shorter_side(shorter), interpolation(way) {}

    ImageSize size;
    std::uint32_t shorter_side = 0;  // 0: all of the picture; else not less than size's sides
    Interpolation interpolation = Interpolation::Bilinear;

    // Where `size` lies in the resized picture.
    ResizedPart part_of(ImageSize picture) const;
    // The picture's own pixels that lie in the frame, to the nearest; at least one each way.
    PictureRect seen_of(ImageSize picture) const;
};

}  // namespace offramp
