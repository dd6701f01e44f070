#include "consumer/processors/pictures/png_rows.hpp"

#include <algorithm>
#include <cstring>

namespace offramp {

void subtract_left(std::span<const std::uint8_t> pixels, std::size_t row_bytes, std::size_t pixel_bytes,
                   std::uint8_t* __restrict filtered) {
    for (std::size_t at = 0; at < pixels.size(); at += row_bytes, filtered += row_bytes + 1) {
        const std::uint8_t* __restrict row = pixels.data() + at;
        filtered[0] = 1;
        std::memcpy(filtered + 1, row, std::min(pixel_bytes, row_bytes));
        for (std::size_t i = pixel_bytes; i < row_bytes; ++i)
            filtered[1 + i] = static_cast<std::uint8_t>(row[i] - row[i - pixel_bytes]);
    }
}

}  // namespace offramp
