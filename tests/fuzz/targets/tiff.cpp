// TIFF files, whole and in parts. libtiff is not instrumented, but its output buffers have exact sizes.

#include "common/app/images/tiff.hpp"

#include <tiff.h>

#include <cstring>

#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "tests/fuzz/exact_copy.hpp"
#include "tests/fuzz/fuzz_target.hpp"
#include "tests/unit/images/picture_files.hpp"
#include "tests/unit/images/tiff_files.hpp"

namespace offramp {
namespace {

constexpr std::uint64_t kMostPixels = 1 << 16;  // decoding more pixels proves nothing more
constexpr std::uint64_t kMostBytes = 1 << 20;   // of all channels as float32; the model limits their number

std::vector<std::uint8_t> part_of(TiffPicture& picture, const PictureRect& part) {
    std::vector<std::uint8_t> pixels(part.size.pixels() * picture.pixel_bytes());
    picture.read(part, pixels.data());
    return pixels;
}

void feed_as(TiffPart what, std::span<const std::byte> input) {
    ExactCopy copy(input);
    try {
        TiffPicture picture(picture_bytes(copy.bytes()), kMostPixels, what);
        const ImageSize size = picture.size();
        const std::size_t bytes = picture.pixel_bytes();
        expect(size.pixels() > 0 && size.pixels() <= kMostPixels, "a picture has pixels, and no more than it may");
        if (size.pixels() * bytes > kMostBytes) return;
        const std::vector<std::uint8_t> whole = part_of(picture, {.left = 0, .top = 0, .size = size});
        const PictureRect part{.left = size.width / 3,
                               .top = size.height / 4,
                               .size = {size.width - size.width / 3, size.height - size.height / 4 - size.height / 5}};
        const std::vector<std::uint8_t> seen = part_of(picture, part);
        for (std::uint32_t y = 0; y < part.size.height; ++y)
            expect(std::memcmp(seen.data() + y * part.size.width * bytes,
                               whole.data() + (std::size_t{part.top + y} * size.width + part.left) * bytes,
                               part.size.width * bytes) == 0,
                   "a part has the pixels of the whole");
    } catch (const UnreadableItem& refused) {
        expect(!std::string_view(refused.what()).empty(), "a refusal has a reason");
    }
}

void feed(std::span<const std::byte> input) {
    feed_as(TiffPart::Colours, input);
    feed_as(TiffPart::Numbers, input);
}

// A page of increasing numbers.
TiffPage counted(std::uint16_t photometric, std::uint16_t samples, std::uint16_t bits) {
    TiffPage page = tiff_page({21, 18}, {});
    for (std::size_t i = 0; i < page.size.pixels() * samples; ++i)
        page.values.push_back(static_cast<std::uint16_t>(i * 7 & ((1U << bits) - 1)));
    page.photometric = photometric;
    page.samples = samples;
    page.bits = bits;
    return page;
}

std::vector<std::string> seeds() {
    std::vector<std::string> files;
    const auto add = [&files](TiffPage page, std::uint16_t compression, const char* mode = "w") {
        page.compression = compression;
        files.push_back(encode_tiff({page}, mode));
        page.tile = {16, 16};
        files.push_back(encode_tiff({page}, mode));
    };
    TiffPage rgb = tiff_page({21, 18}, gradient({21, 18}));
    for (const int compression :
         {COMPRESSION_NONE, COMPRESSION_LZW, COMPRESSION_ADOBE_DEFLATE, COMPRESSION_PACKBITS, COMPRESSION_ZSTD})
        add(rgb, static_cast<std::uint16_t>(compression));
    rgb.strip_rows = 16;
    add(rgb, COMPRESSION_JPEG);
    add(rgb, COMPRESSION_LZW, "w8");
    rgb.planar = PLANARCONFIG_SEPARATE;
    add(rgb, COMPRESSION_LZW, "wb");
    add(counted(PHOTOMETRIC_MINISBLACK, 1, 16), COMPRESSION_NONE);
    add(counted(PHOTOMETRIC_MINISWHITE, 1, 1), COMPRESSION_CCITTFAX4);
    add(counted(PHOTOMETRIC_MINISBLACK, 2, 4), COMPRESSION_PACKBITS);
    TiffPage palette = counted(PHOTOMETRIC_PALETTE, 1, 4);
    for (int i = 0; i < 48; ++i) palette.palette.push_back(static_cast<std::uint16_t>(i * 1000));
    add(palette, COMPRESSION_NONE);
    TiffPage alpha = counted(PHOTOMETRIC_RGB, 4, 8);
    alpha.extra = {EXTRASAMPLE_ASSOCALPHA};
    add(alpha, COMPRESSION_NONE);
    TiffPage bands = counted(PHOTOMETRIC_MINISBLACK, 5, 16);
    bands.extra.assign(4, EXTRASAMPLE_UNSPECIFIED);
    for (const int planar : {PLANARCONFIG_CONTIG, PLANARCONFIG_SEPARATE}) {
        bands.planar = static_cast<std::uint16_t>(planar);
        bands.bits = 16;
        bands.format = SAMPLEFORMAT_INT;
        bands.predictor = 2;
        add(bands, COMPRESSION_ADOBE_DEFLATE);
        bands.bits = 32;
        bands.format = SAMPLEFORMAT_IEEEFP;
        bands.predictor = 3;
        add(bands, COMPRESSION_LZW);
    }
    rgb.planar = PLANARCONFIG_CONTIG;
    rgb.tile = {16, 16};
    TiffPage small = rgb;
    small.subfile = FILETYPE_REDUCEDIMAGE;
    files.push_back(encode_tiff({small, rgb}));
    // A tile of 2.7 GB according to its header.
    std::string bomb = encode_tiff({rgb});
    for (const int tag : {TIFFTAG_TILEWIDTH, TIFFTAG_TILELENGTH}) {
        const std::string entry{static_cast<char>(tag & 255), static_cast<char>(tag >> 8), '\x03', '\0'};
        const std::size_t at = bomb.find(entry);
        expect(at != std::string::npos, "a file in tiles has their size");
        bomb.replace(at + 8, 2, "\x30\x75");
    }
    files.push_back(bomb);
    return files;
}

}  // namespace

FuzzTarget make_tiff() { return {feed, seeds()}; }

}  // namespace offramp
