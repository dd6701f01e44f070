#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "consumer/processors/pictures/png_encoder.hpp"

namespace offramp {

// The PASCAL VOC colours of 256 classes, red, green and blue: class 0 is black, 255 (void) is cream.
PngPalette voc_palette();

// Encodes class ids as 8-bit PNG files with the VOC palette, or as gray ones whose values are the ids. The bytes depend
// on ids, size and level alone (as those of PngEncoder): no time, no text, no filter. Owns the buffer it encodes into.
// Thread: one. Errors: Error for an image that no PNG file can have.
class PalettePng {
  public:
    explicit PalettePng(PngEncoder encoder) : encoder_(std::move(encoder)) {}
    // By --png-level and --mask-palette. Errors: those of PngEncoder.
    explicit PalettePng(const CatalogueValues& settings);

    // One image, row by row. The result is valid until the next call.
    std::span<const std::byte> encode(std::span<const std::uint8_t> ids, std::uint32_t width, std::uint32_t height,
                                      const Progress& progress);
    // One that is not in memory as a whole: PngEncoder::encode_rows().
    void encode_rows(ImageSize size, const PngEncoder::TakeRows& take, const PngEncoder::PutBytes& put,
                     const Progress& progress) {
        encoder_.encode_rows(size, palette_ ? &*palette_ : nullptr, take, put, progress);
    }

  private:
    PngEncoder encoder_;
    std::optional<PngPalette> palette_ = voc_palette();
};

}  // namespace offramp
