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
    unsigned bits = 8;                           // of a sample: 1, 2, 4, 8, 16
    std::uint32_t samples = 1;                   // of a pixel in the file
    std::optional<std::uint32_t> multiplied_by;  // the sample that is an alpha which the colours are multiplied by
    std::vector<std::uint8_t> palette;           // RGB triples, 1 << bits of them
    std::optional<std::uint32_t> alpha;          // the sample that is one, multiplied or not
    std::uint32_t first = 0;                     // sample of the colours

    std::uint32_t colour_samples() const { return kind == Kind::Rgb ? 3 : kind == Kind::Cmyk ? 4 : 1; }
    // The samples of a pixel that are looked at, at most 5: the colours, and the alpha that they are multiplied by.
    std::vector<std::uint16_t> seen_samples() const;
    // Its alpha as gray. There is one.
    TiffColors of_alpha() const;
};

// Turns lines of samples into 8-bit RGB. Owns scratch of some pixels. Thread: one.
class TiffLines {
  public:
    explicit TiffLines(TiffColors colours);

    const TiffColors& colours() const { return colours_; }
    // The largest 16-bit colour number so far; palette indexes do not count.
    std::uint16_t largest_of_16_bits() const { return largest_; }
    // `count` pixels from number `first` of a line on, whose samples stand together; 16 bits in the machine's order.
    void to_rgb(const std::uint8_t* line, std::uint32_t first, std::uint32_t count, std::uint8_t* rgb);
    // The same of lines of one sample each, those of seen_samples().
    void planes_to_rgb(const std::vector<const std::uint8_t*>& lines, std::uint32_t first, std::uint32_t count,
                       std::uint8_t* rgb);

  private:
    void colour(std::uint32_t count, std::uint32_t samples, std::uint32_t first, std::uint32_t alpha,
                std::uint8_t* rgb);

    TiffColors colours_;
    std::vector<std::uint16_t> values_;
    std::uint16_t largest_ = 0;
};

// The meaning of the numbers of a TIFF's page, after checking that it is supported. Has libtiff give RGB where JPEG has
// other colours. Errors: UnreadableItem: a compression, colours or numbers that are not read, with the remedy; damaged.
TiffColors read_tiff_layout(const TiffHandle& handle);

}  // namespace offramp
