#include "consumer/processors/pictures/palette_png.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <numeric>

#include "tests/unit/processors/decoded_png.hpp"

namespace offramp {
namespace {

using test::decode_png;
using test::decode_rgba_png;
using test::DecodedPng;

const Progress kNoProgress = [] {};

TEST(VocPalette, IsThatOfPascalVoc) {
    const auto palette = voc_palette();
    using Colour = std::array<std::uint8_t, 3>;
    EXPECT_EQ(palette[0], (Colour{0, 0, 0}));
    EXPECT_EQ(palette[1], (Colour{128, 0, 0}));        // aeroplane
    EXPECT_EQ(palette[2], (Colour{0, 128, 0}));        // bicycle
    EXPECT_EQ(palette[15], (Colour{192, 128, 128}));   // person
    EXPECT_EQ(palette[20], (Colour{0, 64, 128}));      // tv monitor
    EXPECT_EQ(palette[255], (Colour{224, 224, 192}));  // void
}

// With alpha, at every level, so wide that several pieces of some rows are compressed.
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

// Noise that cannot be compressed, several IDAT chunks long: the output is larger than the input at every
// level.
TEST(PalettePng, FitsWhateverTheLevel) {
    std::vector<std::uint8_t> noise(1'000'000);
    std::uint32_t state = 1;
    for (std::uint8_t& id : noise) {
        state = state * 1664525U + 1013904223U;
        id = static_cast<std::uint8_t>(state >> 24U);
    }
    for (int level = 0; level <= 9; ++level)
        EXPECT_EQ(decode_png(PalettePng(PngEncoder(level)).encode(noise, 1000, 1000, kNoProgress)).ids, noise) << level;
}

TEST(PalettePng, OfALargeImageIsMadeInPartsWithProgressBetween) {
    const std::vector<std::uint8_t> ids(std::size_t{9000} * 16'000, 3);
    int told = 0;
    PalettePng png{PngEncoder(3)};
    EXPECT_TRUE(decode_png(png.encode(ids, 9000, 16'000, [&] { ++told; })).ids == ids);
    EXPECT_EQ(told, 3);
}

TEST(PalettePng, GivesTheSameBytesAgain) {
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
