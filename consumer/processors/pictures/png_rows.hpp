#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace offramp {

// Rows of pixels as PNG (ISO 15948, 9.2) compresses them: each behind a byte that names its filter. `filtered` has room
// for as many rows, each a byte longer. No memory, any thread.

// Filter 0, as they are.
void copy_rows(std::span<const std::uint8_t> rows, std::size_t row_bytes, std::uint8_t* filtered);

// Filter 4: each byte less that one of its neighbours to the left, above and above to the left that is nearest to left
// plus above less above to the left. `above` is the row before these ones, or null at the top of a picture.
void subtract_paeth(std::span<const std::uint8_t> rows, std::size_t row_bytes, std::size_t pixel_bytes,
                    const std::uint8_t* above, std::uint8_t* filtered);

}  // namespace offramp
