#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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

// Encodes images as 8-bit PNG files. The bytes depend on pixels, size, palette and level alone (and on zlib's version):
// no time, no text, one filter a kind. Owns the buffer it encodes into. Thread: one. Errors: Error when libpng refuses
// the image.
class PngEncoder {
  public:
    // `level`: zlib's, 0 to 9.
    explicit PngEncoder(int level) : level_(level) {}
    // By --png-level. Errors: ConfigError when it is none of zlib's.
    explicit PngEncoder(const CatalogueValues& settings);

    // One image, some rows at a time with progress between. The result is valid until the next call.
    std::span<const std::byte> encode(const PngImage& image, const Progress& progress);

  private:
    int level_;
    std::vector<std::byte> buffer_;
};

}  // namespace offramp
