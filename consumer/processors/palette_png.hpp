#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "consumer/processors/processor.hpp"

namespace offramp {

// The PASCAL VOC colours of 256 classes, red, green and blue: class 0 is black, 255 (void) is cream.
std::array<std::array<std::uint8_t, 3>, 256> voc_palette();

// Encodes class ids as 8-bit PNG files with the VOC palette. The bytes depend on ids, size and level alone
// (and on zlib's version): no time, no text, no filter. Owns the buffer it encodes into. Thread: one. Errors:
// Error when libpng refuses the image.
class PalettePng {
  public:
    // `level`: zlib's, 0 to 9.
    explicit PalettePng(int level) : level_(level) {}

    // One image, row by row. The result is valid until the next call.
    std::span<const std::byte> encode(std::span<const std::uint8_t> ids, std::uint32_t width,
                                      std::uint32_t height, const Progress& progress);

  private:
    int level_;
    std::vector<std::byte> buffer_;
};

}  // namespace offramp
