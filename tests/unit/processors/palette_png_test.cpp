#include "consumer/processors/pictures/png_encoder.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "common/app/images/image_decode.hpp"
#include "common/base/error.hpp"
#include "tests/unit/processors/decoded_png.hpp"

namespace offramp {
namespace {

using test::decode_png;
using test::decode_rgba_png;
using test::DecodedPng;

const Progress kNoProgress = [] {};

TEST(VocPalette, EqualsPascalVocs) {
    const auto palette = voc_palette();
    using Colour = std::array<std::uint8_t, 3>;
    EXPECT_EQ(palette[0], (Colour{0, 0, 0}));
    EXPECT_EQ(palette[1], (Colour{128, 0, 0}));        // aeroplane
    EXPECT_EQ(palette[2], (Colour{0, 128, 0}));        // bicycle
    EXPECT_EQ(palette[15], (Colour{192, 128, 128}));   // person
    EXPECT_EQ(palette[20], (Colour{0, 64, 128}));      // tv monitor
    EXPECT_EQ(palette[255], (Colour{224, 224, 192}));  // void
}

// With alpha, at every level, wide enough for several compressed pieces in some rows.
RC_GTEST_PROP(PngEncoder, OfFourChannelsIsReadBackAsItWas, ()) {
    const auto width = *rc::gen::element<std::uint32_t>(1, 2, 77, 9000);
    const auto height = *rc::gen::inRange<std::uint32_t>(1, 12);
    auto pixels = *rc::gen::container<std::vector<std::uint8_t>>(64, rc::gen::arbitrary<std::uint8_t>());
    pixels.resize(std::size_t{width} * height * 4);
    for (std::size_t at = 64; at < pixels.size(); ++at) pixels[at] = static_cast<std::uint8_t>(pixels[at - 61] + 3);
    PngEncoder encoder(*rc::gen::inRange(0, 10));
    const auto read = decode_rgba_png(
        encoder.encode({.pixels = pixels, .width = width, .height = height, .kind = PngPixels::Rgba}, kNoProgress));
    RC_ASSERT(read.width == width);
    RC_ASSERT(read.height == height);
    RC_ASSERT(std::memcmp(read.pixels.data(), pixels.data(), pixels.size()) == 0);
}

RC_GTEST_PROP(PalettePng, IsReadBackAsItWas, ()) {
    const auto width = *rc::gen::inRange<std::uint32_t>(1, 80);
    const auto height = *rc::gen::inRange<std::uint32_t>(1, 40);
    const auto ids =
        *rc::gen::container<std::vector<std::uint8_t>>(std::size_t{width} * height, rc::gen::arbitrary<std::uint8_t>());
    PalettePng png{PngEncoder(*rc::gen::inRange(0, 10))};
    const DecodedPng read = decode_png(png.encode(ids, width, height, kNoProgress));
    RC_ASSERT(read.width == width);
    RC_ASSERT(read.height == height);
    RC_ASSERT(read.ids == ids);
    const auto palette = voc_palette();
    RC_ASSERT(std::equal(read.palette.begin(), read.palette.end(), palette.begin(), palette.end()));
}

// A few rows at a time, and with rows wider than a piece, the picture is the same; if zlib makes both, so is the file.
RC_GTEST_PROP(PalettePng, OfRowsIsTheSamePicture, ()) {
    const auto width = *rc::gen::element<std::uint32_t>(1, 77, 3000, (5U << 20U) + 3);
    const auto height = *rc::gen::inRange<std::uint32_t>(1, width > 3000 ? 3 : width == 3000 ? 3000 : 60);
    std::vector<std::uint8_t> ids(std::size_t{width} * height);
    const auto step = *rc::gen::inRange<std::uint32_t>(1, 1000);
    std::uint32_t state = 1;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (i % step == 0) state = state * 1664525U + 1013904223U;
        ids[i] = static_cast<std::uint8_t>(state >> 24U);
    }
    const int level = *rc::gen::inRange(0, 10);
    PalettePng png{PngEncoder(level)};
    std::vector<std::byte> rows;
    png.encode_rows(
        {width, height},
        [&](std::uint32_t first, std::uint32_t count) {
            return std::span<const std::uint8_t>(ids).subspan(std::size_t{first} * width, std::size_t{count} * width);
        },
        [&](std::span<const std::byte> bytes) { rows.insert(rows.end(), bytes.begin(), bytes.end()); }, kNoProgress);
    const auto whole = png.encode(ids, width, height, kNoProgress);
    if (level == 0 || level > 3) RC_ASSERT(std::equal(rows.begin(), rows.end(), whole.begin(), whole.end()));
    const DecodedPng read = decode_png(rows);
    RC_ASSERT(read.width == width);
    RC_ASSERT(read.height == height);
    RC_ASSERT(read.ids == ids);
    RC_ASSERT(read.palette == decode_png(whole).palette);
}

// Any reader finds the ids in a gray picture, and it is compressed from the same bytes as one with a palette.
TEST(PalettePng, WithoutAPaletteGrayValuesAreIds) {
    const std::uint32_t width = 64, height = 40;
    std::vector<std::uint8_t> ids;
    for (std::size_t i = 0; i < std::size_t{width} * height; ++i) ids.push_back(static_cast<std::uint8_t>(i / 10));
    for (const int level : {0, 3, 9}) {
        CatalogueValues settings;
        settings.put("png-level", level);
        settings.put("mask-palette", "none");
        PalettePng png(settings);
        std::vector<std::byte> rows;
        png.encode_rows(
            {width, height},
            [&](std::uint32_t first, std::uint32_t count) {
                return std::span<const std::uint8_t>(ids).subspan(std::size_t{first} * width,
                                                                  std::size_t{count} * width);
            },
            [&](std::span<const std::byte> bytes) { rows.insert(rows.end(), bytes.begin(), bytes.end()); },
            kNoProgress);
        const auto whole = png.encode(ids, width, height, kNoProgress);
        for (const std::span<const std::byte> file : {std::span<const std::byte>(rows), whole}) {
            EXPECT_EQ(std::to_integer<int>(file[24]), 8) << "bits";
            EXPECT_EQ(std::to_integer<int>(file[25]), 0) << "gray";
            std::vector<std::uint8_t> rgb(ids.size() * 3);
            ImageDecoder().decode(file, ImageSize{width, height}, std::as_writable_bytes(std::span(rgb)));
            for (std::size_t i = 0; i < rgb.size(); ++i) ASSERT_EQ(rgb[i], ids[i / 3]) << level;
        }
        const std::size_t bytes = whole.size();
        EXPECT_EQ(PalettePng(PngEncoder(level)).encode(ids, width, height, kNoProgress).size(), bytes + 780)
            << "a palette has 768 bytes and 12 of its chunk";
    }
}

// Incompressible noise, several IDAT chunks long: the output is larger than the input at every level.
TEST(PalettePng, FitsItsBufferAtEveryLevel) {
    std::vector<std::uint8_t> noise(1'000'000);
    std::uint32_t state = 1;
    for (std::uint8_t& id : noise) {
        state = state * 1664525U + 1013904223U;
        id = static_cast<std::uint8_t>(state >> 24U);
    }
    for (int level = 0; level <= 9; ++level)
        EXPECT_EQ(decode_png(PalettePng(PngEncoder(level)).encode(noise, 1000, 1000, kNoProgress)).ids, noise) << level;
}

TEST(PalettePng, ReportsProgressBetweenPartsOfALargeImage) {
    const std::vector<std::uint8_t> ids(std::size_t{9000} * 16'000, 3);
    int reports = 0;
    PalettePng png{PngEncoder(3)};
    EXPECT_TRUE(decode_png(png.encode(ids, 9000, 16'000, [&] { ++reports; })).ids == ids);
    EXPECT_EQ(reports, 3);
}

TEST(PngEncoder, RefusesAnImageWithoutRowsAtEveryLevel) {
    for (int level = 0; level <= 9; ++level)
        EXPECT_THAT([&] { PngEncoder(level).encode({.width = 7, .kind = PngPixels::Rgb}, kNoProgress); },
                    testing::ThrowsMessage<Error>(testing::HasSubstr("cannot make a PNG file of 7 x 0 pixels: ")))
            << level;
}

// Levels 1 to 3 are the same, so that trying another level does not change files needlessly.
TEST(PngEncoder, MakesOneFileAtTheFastLevels) {
    std::vector<std::uint8_t> pixels(300 * 200 * 3);
    std::iota(pixels.begin(), pixels.end(), std::uint8_t{0});
    const PngImage image{.pixels = pixels, .width = 300, .height = 200, .kind = PngPixels::Rgb};
    PngEncoder first(1), second(2), third(3);
    const auto file = first.encode(image, kNoProgress);
    EXPECT_TRUE(std::ranges::equal(file, second.encode(image, kNoProgress)));
    EXPECT_TRUE(std::ranges::equal(file, third.encode(image, kNoProgress)));
}

// Rows filtered as libpng filters them for zlib at level 3: unfiltered with a palette, else minus the pixel to the
// left.
std::size_t bytes_by_zlib(const PngImage& image) {
    const std::size_t pixel_bytes = image.kind == PngPixels::Palette ? 1 : 4, row_bytes = image.width * pixel_bytes;
    std::vector<std::uint8_t> rows;
    for (std::size_t at = 0; at < image.pixels.size(); at += row_bytes) {
        rows.push_back(pixel_bytes == 1 ? 0 : 1);
        for (std::size_t i = 0; i < row_bytes; ++i)
            rows.push_back(pixel_bytes == 1 || i < pixel_bytes
                               ? image.pixels[at + i]
                               : static_cast<std::uint8_t>(image.pixels[at + i] - image.pixels[at + i - pixel_bytes]));
    }
    uLongf size = compressBound(rows.size());
    std::vector<Bytef> room(size);
    EXPECT_EQ(compress2(room.data(), &size, rows.data(), rows.size(), 3), Z_OK);
    return size;
}

// The fast levels do not enlarge files to save time.
TEST(PngEncoder, MakesFilesNoLargerThanThoseOfZlib) {
    constexpr std::uint32_t kSide = 512;
    std::vector<std::uint8_t> mask(kSide * kSide), cut_out(kSide * kSide * 4);
    std::uint32_t random = 1;
    for (std::uint32_t y = 0; y < kSide; ++y)
        for (std::uint32_t x = 0; x < kSide; ++x) {
            random = random * 1664525 + 1013904223;
            const std::size_t at = std::size_t{y} * kSide + x;
            for (std::uint32_t thing = 1; thing <= 12; ++thing) {  // overlapping ellipses with rough edges
                const std::int64_t across = static_cast<std::int64_t>(x) - 97 * thing % kSide,
                                   down = static_cast<std::int64_t>(y) - 171 * thing % kSide,
                                   size = 1500 + 400 * thing + random % 512;
                if (across * across + 2 * down * down < size) mask[at] = static_cast<std::uint8_t>(thing);
            }
            const std::int64_t left = static_cast<std::int64_t>(x) - 256, up = static_cast<std::int64_t>(y) - 256;
            const std::int64_t alpha = std::clamp<std::int64_t>((50'000 - left * left - up * up) / 16, 0, 255);
            if (alpha == 0) continue;
            const std::uint8_t colours[] = {
                static_cast<std::uint8_t>(x / 3 + random % 7), static_cast<std::uint8_t>(y / 4 + random % 5),
                static_cast<std::uint8_t>((x + y) / 6 + random % 3), static_cast<std::uint8_t>(alpha)};
            std::ranges::copy(colours, cut_out.begin() + static_cast<std::ptrdiff_t>(4 * at));
        }
    const PngPalette palette = voc_palette();
    for (const PngImage& image :
         {PngImage{.pixels = mask, .width = kSide, .height = kSide, .kind = PngPixels::Palette, .palette = &palette},
          PngImage{.pixels = cut_out, .width = kSide, .height = kSide, .kind = PngPixels::Rgba}}) {
        PngEncoder encoder(3);
        const std::size_t container = 57 + (image.palette != nullptr ? 12 + sizeof palette : 0);
        const std::size_t fast = encoder.encode(image, kNoProgress).size() - container;
        const std::size_t zlibs = bytes_by_zlib(image);
        EXPECT_LE(static_cast<double>(fast), 1.02 * static_cast<double>(zlibs));
        EXPECT_GT(fast, kSide * 4) << "the picture has several colours";
    }
}

TEST(PalettePng, IsDeterministic) {
    std::vector<std::uint8_t> ids(5000);
    std::iota(ids.begin(), ids.end(), std::uint8_t{0});
    PalettePng reused{PngEncoder(3)};
    reused.encode(std::vector<std::uint8_t>(90'000, 7), 300, 300, kNoProgress);
    PalettePng fresh{PngEncoder(3)};
    const auto again = reused.encode(ids, 100, 50, kNoProgress);
    const auto first = fresh.encode(ids, 100, 50, kNoProgress);
    EXPECT_TRUE(std::equal(again.begin(), again.end(), first.begin(), first.end()));
}

}  // namespace
}  // namespace offramp
