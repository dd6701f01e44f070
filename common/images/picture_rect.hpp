#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/images/image_size.hpp"

namespace offramp {

// Pixels of a picture.
struct PictureRect {
    std::uint32_t left = 0;
    std::uint32_t top = 0;
    ImageSize size;

    bool operator==(const PictureRect&) const = default;
};

// A plane of bytes, which is that of a part of a picture, where the part lies in all of it; around it zeros.
inline void surround(std::span<const std::uint8_t> plane, const PictureRect& part, ImageSize whole,
                     std::vector<std::uint8_t>& to) {
    to.assign(whole.pixels(), 0);
    for (std::uint32_t y = 0; y < part.size.height; ++y)
        std::ranges::copy(
            plane.subspan(std::size_t{y} * part.size.width, part.size.width),
            to.begin() + static_cast<std::ptrdiff_t>(std::uint64_t{part.top + y} * whole.width + part.left));
}

}  // namespace offramp
