#pragma once

#include <cstdint>

#include "common/images/image_size.hpp"
#include "common/images/interpolation.hpp"
#include "common/images/picture_rect.hpp"
#include "common/images/resized_part.hpp"

namespace offramp {

// What a model sees of an upright picture: all of it, squeezed into `size`; or, with a `shorter_side`, its middle. Its
// shorter side is then brought to that length, its proportions kept, and `size` is cut out, to the pixel where
// torchvision's Resize and CenterCrop do.
struct PictureFrame {
    PictureFrame(ImageSize all) : size(all) {}  // not explicit: a size is the frame of all of a picture
    PictureFrame(ImageSize part, std::uint32_t shorter, Interpolation way = Interpolation::Bilinear)
        : size(part), shorter_side(shorter), interpolation(way) {}

    ImageSize size;
    std::uint32_t shorter_side = 0;  // 0: all of the picture; else not less than size's sides
    Interpolation interpolation = Interpolation::Bilinear;

    // Where `size` lies in the resized picture, which has pixels.
    ResizedPart part_of(ImageSize picture) const;
    // The picture's own pixels that lie in the frame, to the nearest; at least one each way.
    PictureRect seen_of(ImageSize picture) const;
};

}  // namespace offramp
