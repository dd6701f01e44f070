#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/app/images/geometry.hpp"

namespace offramp {

// A page of a TIFF file, as libtiff writes it. Tags have the numbers of <tiff.h>.
struct TiffPage {
    ImageSize size;
    std::vector<std::uint16_t> values;  // pixel by pixel, `samples` of each
    std::uint16_t samples = 3;
    std::uint16_t bits = 8;         // 32 and 64: the floating-point numbers value / 8 - 100
    std::uint16_t photometric = 2;  // RGB
    std::uint16_t compression = 1;  // none
    std::uint16_t predictor = 1;    // none
    std::uint16_t planar = 1;       // samples of a pixel are together
    std::uint16_t format = 1;       // unsigned integers
    std::uint16_t orientation = 1;
    std::uint16_t ink_set = 1;  // CMYK
    std::uint32_t subfile = 0;
    ImageSize tile{0, 0};  // none: strips
    std::uint32_t strip_rows = 7;
    std::vector<std::uint16_t> extra;    // kinds of the samples after the colours
    std::vector<std::uint16_t> palette;  // red, green and blue of all colours, one after the other
    std::string profile{};               // ICC
};

// `mode` of TIFFOpen(): "w", "w8" (BigTIFF), "wb" (the other byte order).
std::string encode_tiff(const std::vector<TiffPage>& pages, const char* mode = "w");
// RGB of 8 bits.
TiffPage tiff_page(ImageSize size, const std::vector<std::uint8_t>& rgb);

}  // namespace offramp
