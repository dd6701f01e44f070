#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace offramp {

// Rows of pixels as PNG (ISO 15948, 9.2) compresses them: a byte that names the row's filter, then the row. `filtered`
// has room for as many rows, each a byte longer.

// Filter 0: as it is.
void copy_rows(std::span<const std::uint8_t> pixels, std::size_t row_bytes, std::uint8_t* filtered);
// Filter 1: each byte less that of the pixel to the left.
void subtract_left(std::span<const std::uint8_t> pixels, std::size_t row_bytes, std::size_t pixel_bytes,
                   std::uint8_t* filtered);

}  // namespace offramp
