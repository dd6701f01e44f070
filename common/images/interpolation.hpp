#pragma once

#include <cstdint>

namespace offramp {

// Which pixels of a picture make one of a resized one: a triangle, or Keys' cubic with a = -0.5. Both widen when a
// picture shrinks (antialias).
enum class Interpolation : std::uint8_t { Bilinear, Bicubic };

}  // namespace offramp
