#include "consumer/processors/pictures/png_rows.hpp"

#include <algorithm>
#include <cstring>

namespace offramp {
namespace {

std::uint8_t between(std::uint8_t one, std::uint8_t other) {
    return static_cast<std::uint8_t>(one > other ? one - other : other - one);
}

// PNG's predictor in bytes alone, of which a vector holds most. The distance to the corner is |left - corner| and
// |above - corner| added where both lie on one side of it, which is never the least, and else their difference.
[[gnu::always_inline]] inline std::uint8_t predicted(std::uint8_t left, std::uint8_t above, std::uint8_t corner) {
    const std::uint8_t to_left = between(above, corner), to_above = between(left, corner);
    const std::uint8_t to_corner = (left > corner) == (above > corner) ? 255 : between(to_left, to_above);
    const std::uint8_t next = to_above <= to_corner ? above : corner;
    return to_left <= std::min(to_above, to_corner) ? left : next;
}

[[gnu::always_inline]] inline void subtract_inline(const std::uint8_t* __restrict row,
                                                   const std::uint8_t* __restrict above,
                                                   std::uint8_t* __restrict filtered, std::size_t row_bytes,
                                                   std::size_t pixel_bytes) {
    for (std::size_t i = pixel_bytes; i < row_bytes; ++i)
        filtered[i] =
            static_cast<std::uint8_t>(row[i] - predicted(row[i - pixel_bytes], above[i], above[i - pixel_bytes]));
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void subtract_avx2(const std::uint8_t* row, const std::uint8_t* above, std::uint8_t* filtered,
                                           std::size_t row_bytes, std::size_t pixel_bytes) {
    subtract_inline(row, above, filtered, row_bytes, pixel_bytes);
}
bool has_avx2() { return __builtin_cpu_supports("avx2") != 0; }
#endif

void subtract(const std::uint8_t* row, const std::uint8_t* above, std::uint8_t* filtered, std::size_t row_bytes,
              std::size_t pixel_bytes) {
#if defined(__x86_64__)
    if (has_avx2()) return subtract_avx2(row, above, filtered, row_bytes, pixel_bytes);
#endif
    subtract_inline(row, above, filtered, row_bytes, pixel_bytes);
}

}  // namespace

void copy_rows(std::span<const std::uint8_t> rows, std::size_t row_bytes, std::uint8_t* filtered) {
    for (std::size_t at = 0; at < rows.size(); at += row_bytes, filtered += row_bytes + 1) {
        filtered[0] = 0;
        std::memcpy(filtered + 1, rows.data() + at, row_bytes);
    }
}

void subtract_paeth(std::span<const std::uint8_t> rows, std::size_t row_bytes, std::size_t pixel_bytes,
                    const std::uint8_t* above, std::uint8_t* filtered) {
    for (std::size_t at = 0; at < rows.size(); at += row_bytes, filtered += row_bytes + 1) {
        const std::uint8_t* row = rows.data() + at;
        filtered[0] = 4;
        std::uint8_t* to = filtered + 1;
        if (above == nullptr) {  // all of it is 0, and the predictor is the left one
            std::memcpy(to, row, std::min(pixel_bytes, row_bytes));
            for (std::size_t i = pixel_bytes; i < row_bytes; ++i)
                to[i] = static_cast<std::uint8_t>(row[i] - row[i - pixel_bytes]);
        } else {  // nothing is left of the first pixel, and the predictor is the one above
            for (std::size_t i = 0; i < std::min(pixel_bytes, row_bytes); ++i)
                to[i] = static_cast<std::uint8_t>(row[i] - above[i]);
            subtract(row, above, to, row_bytes, pixel_bytes);
        }
        above = row;
    }
}

}  // namespace offramp
