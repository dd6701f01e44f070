#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "consumer/processors/pictures/png_encoder.hpp"

namespace offramp {

// The PASCAL VOC colours of 256 classes, red, green and blue: class 0 is black, 255 (void) is cream.
PngPalette voc_palette();

// Encodes class ids as 8-bit PNG files with the VOC palette. The bytes depend on ids, size and level alone
// (and on zlib's version): no time, no text, no filter. Owns the buffer it encodes into. Thread: one. Errors:
// Error when libpng refuses the image.
class PalettePng {
  public:
    explicit PalettePng(PngEncoder encoder) : encoder_(std::move(encoder)) {}

    // One image, row by row. The result is valid until the next call.
    std::span<const std::byte> encode(std::span<const std::uint8_t> ids, std::uint32_t width, std::uint32_t height,
                                      const Progress& progress);

  private:
    PngEncoder encoder_;
    PngPalette palette_ = voc_palette();
};

}  // namespace offramp
