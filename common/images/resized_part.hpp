#pragma once

#include <cstdint>

namespace offramp {

// A part of a picture that was brought to another size: as many pixels as somebody wants, from `left`, `top` on. Sides
// are long where a picture of one line is enlarged.
struct ResizedPart {
    std::uint64_t width = 0;  // of the whole picture, in its new size
    std::uint64_t height = 0;
    std::uint64_t left = 0;
    std::uint64_t top = 0;

    bool operator==(const ResizedPart&) const = default;
};

}  // namespace offramp
