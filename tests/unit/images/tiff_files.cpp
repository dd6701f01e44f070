#include "tests/unit/images/tiff_files.hpp"

#include <tiffio.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "tests/unit/images/picture_files.hpp"

namespace offramp {
namespace {

// `count` values, every `every`-th one, as bits of one line.
void pack(const std::uint16_t* from, std::size_t count, std::size_t every, unsigned bits, std::uint8_t* to) {
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint16_t value = from[i * every];
        const auto as_float = static_cast<float>(value) / 8 - 100;
        const auto as_double = static_cast<double>(as_float);
        if (bits == 64)
            std::memcpy(to + 8 * i, &as_double, 8);
        else if (bits == 32)
            std::memcpy(to + 4 * i, &as_float, 4);
        else if (bits == 16)
            std::memcpy(to + 2 * i, &value, 2);
        else if (bits == 8)
            to[i] = static_cast<std::uint8_t>(value);
        else
            to[i * bits / 8] |= static_cast<std::uint8_t>(value << (8 - bits - i * bits % 8));
    }
}

void require(bool done) {
    if (!done) throw std::runtime_error("libtiff does not write this");
}

void write_strips(TIFF* tiff, const TiffPage& page) {
    const bool apart = page.planar == PLANARCONFIG_SEPARATE;
    std::vector<std::uint8_t> line;
    for (std::uint16_t plane = 0; plane < (apart ? page.samples : 1); ++plane)
        for (std::uint32_t y = 0; y < page.size.height; ++y) {
            // libtiff expects fewer for YCbCr.
            const std::size_t packed = (std::size_t{page.size.width} * page.samples * page.bits + 7) / 8;
            line.assign(std::max(packed, static_cast<std::size_t>(TIFFScanlineSize(tiff))), 0);
            const std::uint16_t* const from = page.values.data() + std::size_t{y} * page.size.width * page.samples;
            if (apart)
                pack(from + plane, page.size.width, page.samples, page.bits, line.data());
            else
                pack(from, std::size_t{page.size.width} * page.samples, 1, page.bits, line.data());
            require(TIFFWriteScanline(tiff, line.data(), y, plane) == 1);
        }
}

void write_tiles(TIFF* tiff, const TiffPage& page) {
    const bool apart = page.planar == PLANARCONFIG_SEPARATE;
    const auto line_bytes = static_cast<std::size_t>(TIFFTileRowSize(tiff));
    std::vector<std::uint8_t> tile;
    std::vector<std::uint16_t> row(std::size_t{page.tile.width} * page.samples);
    for (std::uint16_t plane = 0; plane < (apart ? page.samples : 1); ++plane)
        for (std::uint32_t top = 0; top < page.size.height; top += page.tile.height)
            for (std::uint32_t left = 0; left < page.size.width; left += page.tile.width) {
                tile.assign(static_cast<std::size_t>(TIFFTileSize(tiff)), 0);
                for (std::uint32_t y = 0; y < page.tile.height; ++y) {
                    for (std::uint32_t x = 0; x < page.tile.width; ++x) {
                        const std::size_t at = std::min(top + y, page.size.height - 1) * std::size_t{page.size.width} +
                                               std::min(left + x, page.size.width - 1);
                        std::copy_n(page.values.begin() + static_cast<std::ptrdiff_t>(at * page.samples), page.samples,
                                    row.begin() + static_cast<std::ptrdiff_t>(std::size_t{x} * page.samples));
                    }
                    std::uint8_t* const line = tile.data() + y * line_bytes;
                    if (apart)
                        pack(row.data() + plane, page.tile.width, page.samples, page.bits, line);
                    else
                        pack(row.data(), row.size(), 1, page.bits, line);
                }
                require(TIFFWriteTile(tiff, tile.data(), left, top, 0, plane) > 0);
            }
}

void write_page(TIFF* tiff, const TiffPage& page) {
    TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, page.size.width);
    TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, page.size.height);
    TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, page.samples);
    TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, page.bits);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, page.photometric);
    TIFFSetField(tiff, TIFFTAG_COMPRESSION, page.compression);
    if (page.predictor != 1) TIFFSetField(tiff, TIFFTAG_PREDICTOR, page.predictor);
    TIFFSetField(tiff, TIFFTAG_PLANARCONFIG, page.planar);
    TIFFSetField(tiff, TIFFTAG_SAMPLEFORMAT, page.format);
    TIFFSetField(tiff, TIFFTAG_ORIENTATION, page.orientation);
    if (page.ink_set != 1) TIFFSetField(tiff, TIFFTAG_INKSET, page.ink_set);
    TIFFSetField(tiff, TIFFTAG_SUBFILETYPE, page.subfile);
    if (!page.extra.empty())
        TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, static_cast<int>(page.extra.size()), page.extra.data());
    if (!page.profile.empty())
        TIFFSetField(tiff, TIFFTAG_ICCPROFILE, static_cast<std::uint32_t>(page.profile.size()), page.profile.data());
    if (!page.palette.empty()) {
        const std::size_t colours = page.palette.size() / 3;
        TIFFSetField(tiff, TIFFTAG_COLORMAP, page.palette.data(), page.palette.data() + colours,
                     page.palette.data() + 2 * colours);
    }
    if (page.photometric == PHOTOMETRIC_YCBCR && page.compression == COMPRESSION_JPEG)
        TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    if (page.tile.width == 0) {
        TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, page.strip_rows);
        write_strips(tiff, page);
    } else {
        TIFFSetField(tiff, TIFFTAG_TILEWIDTH, page.tile.width);
        TIFFSetField(tiff, TIFFTAG_TILELENGTH, page.tile.height);
        write_tiles(tiff, page);
    }
    require(TIFFWriteDirectory(tiff) == 1);
}

}  // namespace

std::string encode_tiff(const std::vector<TiffPage>& pages, const char* mode) {
    const TempFolder folder;
    const std::string path = folder / "written.tif";
    TIFF* const tiff = TIFFOpen(path.c_str(), mode);
    require(tiff != nullptr);
    for (const TiffPage& page : pages) write_page(tiff, page);
    TIFFClose(tiff);
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

TiffPage tiff_page(ImageSize size, const std::vector<std::uint8_t>& rgb) {
    return {.size = size, .values = {rgb.begin(), rgb.end()}, .extra = {}, .palette = {}};
}

}  // namespace offramp
