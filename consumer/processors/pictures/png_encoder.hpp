#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "consumer/processors/pictures/fast_deflate.hpp"
#include "consumer/processors/processor.hpp"

namespace offramp {

using PngPalette = std::array<std::array<std::uint8_t, 3>, 256>;  // red, green, blue

// What the bytes of an image are.
enum class PngPixels {
    Palette,  // one byte a pixel, a number of the palette
    Gray,     // one byte a pixel
    Rgb,      // three bytes a pixel
    Rgba,     // four bytes a pixel, alpha last, not multiplied in
};

struct PngImage {
    std::span<const std::uint8_t> pixels;  // row by row
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    PngPixels kind = PngPixels::Palette;
    const PngPalette* palette = nullptr;  // of PngPixels::Palette
};

// Encodes images as 8-bit PNG files: by libdeflate at the levels 1 to 3 unless they have a palette, else by zlib. The
// bytes depend on pixels, size, palette and level alone (and on the versions of both): no time, no text, one filter a
// kind. Owns the buffers it encodes into. Thread: one. Errors: Error when libpng refuses the image.
class PngEncoder {
  public:
    // `level`: zlib's, 0 to 9.
    explicit PngEncoder(int level);
    // By --png-level. Errors: ConfigError when it is none of zlib's.
    explicit PngEncoder(const CatalogueValues& settings);

    // One image, some rows at a time with progress between. The result is valid until the next call.
    std::span<const std::byte> encode(const PngImage& image, const Progress& progress);

  private:
    std::span<const std::byte> compress_fast(const PngImage& image, std::size_t row_bytes);

    int level_;
    std::optional<FastDeflate> fast_;     // where the level is one of its
    std::vector<std::uint8_t> filtered_;  // rows on their way there
    std::vector<std::byte> buffer_;
};

}  // namespace offramp
