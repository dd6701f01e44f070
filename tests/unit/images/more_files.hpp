#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "tests/unit/images/picture_files.hpp"

namespace offramp {

// A GIF file of one picture, coded as encoders do it.
struct GifFile {
    ImageSize canvas;
    PictureRect picture;
    std::vector<std::uint8_t> colors;  // a number a pixel
    unsigned color_bits = 8;
    Rgb palette, own_palette;  // of the file, of the picture; as many colours as the bits give, or none
    bool interlaced = false;
    std::optional<std::uint8_t> transparent;
    std::string between;  // further blocks ahead of the picture
};
std::string encode_gif(const GifFile& gif);
// One that fills its canvas, with a palette and numbers that differ from pixel to pixel.
GifFile gif_of(ImageSize size);
// Colours of its pixels.
Rgb pixels_of(const GifFile& gif, const Rgb& palette);

// BMP: header, masks and palette as they are given, then rows.
struct BmpFile {
    ImageSize size;
    unsigned header = 40;  // bytes
    unsigned bits = 24;
    bool top_down = false;
    unsigned compression = 0;
    std::vector<std::uint32_t> masks;  // red, green, blue, alpha
    std::string palette;               // as it lies in the file
    std::string rows;
};
std::string encode_bmp(const BmpFile& bmp);

// A WebP of several pictures, each in its place on a canvas, as encode_webp gives them.
struct WebpFrame {
    PictureRect place;  // left and top are even
    std::string webp;
};
std::string animated_webp(ImageSize canvas, const std::vector<WebpFrame>& frames, bool has_alpha = false);

}  // namespace offramp
