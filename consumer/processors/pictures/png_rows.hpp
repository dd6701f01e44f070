#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace offramp {

// Rows of pixels as PNG (ISO 15948, 9.2) compresses them with filter 1: a byte that names it, then each byte of the row
// less that of the pixel to the left. `filtered` has room for as many rows, each a byte longer.
void subtract_left(std::span<const std::uint8_t> pixels, std::size_t row_bytes, std::size_t pixel_bytes,
                   std::uint8_t* filtered);

}  // namespace offramp
