#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/app/images/tiff_handle.hpp"

namespace offramp {

// The meaning of a TIFF's pixel values.
struct TiffColors {
    enum class Kind { Gray, GrayInverted, Palette, Rgb, Cmyk };

    Kind kind = Kind::Gray;
    unsigned bits = 8;                           // per sample: 1, 2, 4, 8, 16
    std::uint32_t samples = 1;                   // per pixel in the file
    std::optional<std::uint32_t> multiplied_by;  // the alpha sample, if the colours are premultiplied
    std::vector<std::uint8_t> palette;           // 1 << bits RGB triples
    std::optional<std::uint32_t> alpha;          // the alpha sample, premultiplied or not
    std::uint32_t first = 0;                     // first sample of the colours

    std::uint32_t colour_samples() const { return kind == Kind::Rgb ? 3 : kind == Kind::Cmyk ? 4 : 1; }
    // The samples of a pixel that decoding needs, at most 5: the colours, and the alpha of premultiplied colours.
    std::vector<std::uint16_t> seen_samples() const;
    // The alpha as gray. Requires `alpha`.
    TiffColors of_alpha() const;
};

// Converts lines of samples to 8-bit RGB. Owns scratch memory for some pixels. Thread: one.
class TiffLines {
  public:
    explicit TiffLines(TiffColors colours);

    const TiffColors& colours() const { return colours_; }
    // The largest 16-bit colour value so far; palette indexes do not count.
    std::uint16_t largest_of_16_bits() const { return largest_; }
    // Converts `count` pixels from pixel `first` of a line with interleaved samples; 16-bit samples are in the
    // machine's byte order.
    void to_rgb(const std::uint8_t* line, std::uint32_t first, std::uint32_t count, std::uint8_t* rgb);
    // The same for separate lines, one for each of seen_samples().
    void planes_to_rgb(const std::vector<const std::uint8_t*>& lines, std::uint32_t first, std::uint32_t count,
                       std::uint8_t* rgb);

  private:
    void colour(std::uint32_t count, std::uint32_t samples, std::uint32_t first, std::uint32_t alpha,
                std::uint8_t* rgb);

    TiffColors colours_;
    std::vector<std::uint16_t> values_;
    std::uint16_t largest_ = 0;
};

// Reads the meaning of a page's pixel values, and checks that the page is supported. Sets libtiff up to convert JPEG
// colours to RGB. Errors: UnreadableItem: unsupported compression, colours or number types, with the remedy; damaged.
TiffColors read_tiff_layout(const TiffHandle& handle);

}  // namespace offramp
