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
    Palette,  // one byte a pixel, a number of the palette
    Ids,      // one byte a pixel, a class: gray, and compressed as a palette's
    Gray,     // one byte a pixel
    Rgb,      // three bytes a pixel
    Rgba,     // four bytes a pixel, alpha last, not multiplied in
};

struct PngImage {
    std::span<const std::uint8_t> pixels;  // row by row
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    PngPixels kind = PngPixels::Palette;
    const PngPalette* palette = nullptr;   // of PngPixels::Palette
    std::span<const std::byte> profile{};  // ICC, of Rgb and Rgba; empty: none
};

// Encodes images as 8-bit PNG files: by ISA-L at the levels 1 to 3, which are one, and by zlib at the others (and above
// 1 GiB). The bytes depend on pixels, size, palette, profile and level alone (and on the versions of both): no time, no
// text, one filter a kind. Owns the buffers it encodes into. Thread: one. Errors: Error for an image that no PNG file
// can have.
class PngEncoder {
  public:
    // `level`: zlib's, 0 to 9.
    explicit PngEncoder(int level);
    // By --png-level. Errors: ConfigError when it is none of zlib's.
    explicit PngEncoder(const CatalogueValues& settings);

    // One image, some rows at a time with progress between. The result is valid until the next call.
    std::span<const std::byte> encode(const PngImage& image, const Progress& progress);

    // Gives the rows from `first` on, `rows` of them, of an image that is not in memory as a whole; valid until the
    // next call.
    using TakeRows = std::function<std::span<const std::uint8_t>(std::uint32_t first, std::uint32_t rows)>;
    using PutBytes = std::function<void(std::span<const std::byte>)>;
    // One image of a palette, or of ids where that is null, some rows at a time and always by zlib, as ISA-L's part
    // wants room for all of a file: `put` gets the bytes as they come. The pixels are those of encode(). What `take`
    // and `put` throw goes through.
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
    std::optional<FastDeflate> fast_;     // where the level is one of its
    std::vector<std::uint8_t> filtered_;  // some rows on their way there
    std::vector<std::byte> buffer_;
    std::vector<std::byte> profile_;           // the last one, and
    std::vector<std::uint8_t> profile_chunk_;  // its chunk's data
};

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
