#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "consumer/processors/pictures/fast_deflate.hpp"
#include "consumer/processors/processor.hpp"

namespace offramp {

using PngPalette = std::array<std::array<std::uint8_t, 3>, 256>;  // red, green, blue

// The meaning of the bytes of an image.
enum class PngPixels {
    Palette,  // one byte a pixel, an index into the palette
    Ids,      // one byte a pixel, a class: stored as gray, compressed like a palette image
    Gray,     // one byte a pixel
    Rgb,      // three bytes a pixel
    Rgba,     // four bytes a pixel, alpha last, not premultiplied
};

struct PngImage {
    std::span<const std::uint8_t> pixels;  // row by row
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    PngPixels kind = PngPixels::Palette;
    const PngPalette* palette = nullptr;   // for PngPixels::Palette
    std::span<const std::byte> profile{};  // ICC profile, for Rgb and Rgba; empty: none
};

// Encodes images as 8-bit PNG files. ISA-L compresses for levels 1 to 3, which are equivalent; zlib compresses for
// other levels and above 1 GiB. The bytes depend only on pixels, size, palette, profile, level and the versions of both
// libraries: files have no time or text, and each kind has one filter. Owns its output buffers. Thread: one. Errors:
// Error for an image that PNG cannot hold.
class PngEncoder {
  public:
    // `level`: a zlib level, 0 to 9.
    explicit PngEncoder(int level);
    // Takes the level from --png-level. Errors: ConfigError when it is not a zlib level.
    explicit PngEncoder(const CatalogueValues& settings);

    // Encodes one image, some rows at a time, and reports progress between. The result is valid until the next call.
    std::span<const std::byte> encode(const PngImage& image, const Progress& progress);

    // Returns `rows` rows, starting at `first`, of an image that is not in memory as a whole. The rows are valid until
    // the next call.
    using TakeRows = std::function<std::span<const std::uint8_t>(std::uint32_t first, std::uint32_t rows)>;
    using PutBytes = std::function<void(std::span<const std::byte>)>;
    // Encodes one image with a palette, or of ids if `palette` is null, some rows at a time. Always uses zlib, because
    // ISA-L needs room for the whole file. `put` gets the bytes as they are made. The pixels equal those of encode().
    // Exceptions of `take` and `put` propagate.
    void encode_rows(ImageSize size, const PngPalette* palette, const TakeRows& take, const PutBytes& put,
                     const Progress& progress);

  private:
    std::span<const std::byte> encode_by_libpng(const PngImage& image, std::size_t row_bytes, std::size_t raw_bytes,
                                                const Progress& progress);
    std::span<const std::byte> encode_fast(const PngImage& image, std::size_t row_bytes, std::size_t raw_bytes,
                                           const Progress& progress);
    std::size_t compress(const PngImage& image, std::size_t row_bytes, std::span<std::byte> room,
                         const Progress& progress);
    void pack(std::span<const std::byte> profile);

    int level_;
    std::optional<FastDeflate> fast_;     // set if ISA-L supports the level
    std::vector<std::uint8_t> filtered_;  // some rows, ready for compression
    std::vector<std::byte> buffer_;
    std::vector<std::byte> profile_;           // the last profile
    std::vector<std::uint8_t> profile_chunk_;  // the data of its chunk
};

// The PASCAL VOC colours of 256 classes, red, green and blue: class 0 is black, 255 (void) is cream.
PngPalette voc_palette();

// Encodes class ids as 8-bit PNG files, with the VOC palette or as gray values equal to the ids. The bytes depend only
// on ids, size and level (and PngEncoder's libraries): no time, no text, no filter. Owns its output buffer. Thread:
// one. Errors: Error for an image that PNG cannot hold.
class PalettePng {
  public:
    explicit PalettePng(PngEncoder encoder) : encoder_(std::move(encoder)) {}
    // Takes level and form from --png-level and --mask-palette. Errors: those of PngEncoder.
    explicit PalettePng(const CatalogueValues& settings);

    // Encodes one image, row by row. The result is valid until the next call.
    std::span<const std::byte> encode(std::span<const std::uint8_t> ids, std::uint32_t width, std::uint32_t height,
                                      const Progress& progress);
    // For an image that is not in memory as a whole: see PngEncoder::encode_rows().
    void encode_rows(ImageSize size, const PngEncoder::TakeRows& take, const PngEncoder::PutBytes& put,
                     const Progress& progress) {
        encoder_.encode_rows(size, palette_ ? &*palette_ : nullptr, take, put, progress);
    }

  private:
    PngEncoder encoder_;
    std::optional<PngPalette> palette_ = voc_palette();
};

}  // namespace offramp
