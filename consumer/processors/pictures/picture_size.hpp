#pragma once

#include <cstdint>

#include "common/app/images/geometry.hpp"

namespace offramp {

// The size of a result that is `made` by a network which saw a picture squeezed into a square of that side (0: not
// known): `picture` enlarged as much as the network enlarges the square, so that proportions are the picture's. At most
// `longest` pixels a side and kMaxImagePixels in all, in the same proportions. Pure.
ImageSize size_in_proportion(ImageSize picture, ImageSize made, std::uint32_t side, std::uint32_t longest);

}  // namespace offramp
