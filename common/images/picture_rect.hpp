#pragma once

#include <cstdint>

#include "common/images/image_size.hpp"

namespace offramp {

// Pixels of a picture.
struct PictureRect {
    std::uint32_t left = 0;
    std::uint32_t top = 0;
    ImageSize size;

    bool operator==(const PictureRect&) const = default;
};

}  // namespace offramp
