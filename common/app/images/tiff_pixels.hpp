#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/app/images/tiff_handle.hpp"

namespace offramp {

// The meaning of a TIFF's pixel values.
struct TiffColors {
    enum class Kind { Gray, GrayInverted, Palette, Rgb, Cmyk, Numbers };  // Numbers: no colours

    Kind kind = Kind::Gray;
    unsigned bits = 8;                           // per sample: 1, 2, 4, 8, 16; Numbers: 8, 16, 32, 64
    std::uint32_t samples = 1;                   // per pixel in the file
    std::optional<std::uint32_t> multiplied_by;  // the alpha sample, if the colours are premultiplied
    std::vector<std::uint8_t> palette;           // 1 << bits RGB triples
    std::optional<std::uint32_t> alpha;          // the alpha sample, premultiplied or not
    std::uint32_t first = 0;                     // first sample of the colours
    std::uint16_t form = 1;                      // of Numbers: libtiff's SAMPLEFORMAT

    std::uint32_t colour_samples() const {
        return kind == Kind::Numbers ? samples : kind == Kind::Rgb ? 3 : kind == Kind::Cmyk ? 4 : 1;
    }
    // A decoded pixel: 8-bit RGB, or a float32 per sample.
    std::size_t pixel_bytes() const { return kind == Kind::Numbers ? samples * sizeof(float) : 3; }
    // The samples of a pixel that decoding needs: of Numbers all; otherwise at most 5, the colours, and the alpha of
    // premultiplied colours.
    std::vector<std::uint16_t> seen_samples() const;
    // The alpha as gray. Requires `alpha`.
    TiffColors of_alpha() const;
};

// Converts lines of samples to 8-bit RGB, or to float32. Owns scratch memory for some pixels. Thread: one.
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
    // Converts `count` samples of Numbers from sample `first` of a line, each to every `every`-th float32 of `to`.
    void to_numbers(const std::uint8_t* line, std::size_t first, std::size_t count, std::size_t every,
                    std::uint8_t* to) const;

  private:
    void colour(std::uint32_t count, std::uint32_t samples, std::uint32_t first, std::uint32_t alpha,
                std::uint8_t* rgb);

    TiffColors colours_;
    std::vector<std::uint16_t> values_;
    std::uint16_t largest_ = 0;
};

// Reads the meaning of a page's pixel values for `part`, and checks that the page is supported. Sets libtiff up to
// convert JPEG colours to RGB. Errors: UnreadableItem: unsupported compression, colours or number types, with the
// remedy; damaged.
TiffColors read_tiff_layout(const TiffHandle& handle, TiffPart part);

}  // namespace offramp
