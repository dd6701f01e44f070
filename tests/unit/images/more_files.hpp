#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "tests/unit/images/picture_files.hpp"

namespace offramp {

// A GIF file of one picture, encoded as usual.
struct GifFile {
    ImageSize canvas;
    PictureRect picture;
    std::vector<std::uint8_t> colors;  // a number per pixel
    unsigned color_bits = 8;
    Rgb palette, own_palette;  // of the file, of the picture; complete for the bits, or empty
    bool interlaced = false;
    std::optional<std::uint8_t> transparent;
    std::string between;  // further blocks ahead of the picture
};
std::string encode_gif(const GifFile& gif);
// A GIF that fills its canvas, with a palette and numbers that vary between pixels.
GifFile gif_of(ImageSize size);
// Colours of its pixels.
Rgb pixels_of(const GifFile& gif, const Rgb& palette);

// BMP: header, masks and palette as given, then rows.
struct BmpFile {
    ImageSize size;
    unsigned header = 40;  // bytes
    unsigned bits = 24;
    bool top_down = false;
    unsigned compression = 0;
    std::vector<std::uint32_t> masks;  // red, green, blue, alpha
    std::string palette;               // as stored in the file
    std::string rows;
};
std::string encode_bmp(const BmpFile& bmp);

// A WebP of several pictures, each at its place on a canvas, encoded by encode_webp.
struct WebpFrame {
    PictureRect place;  // left and top are even
    std::string webp;
};
std::string animated_webp(ImageSize canvas, const std::vector<WebpFrame>& frames, bool has_alpha = false);

}  // namespace offramp
