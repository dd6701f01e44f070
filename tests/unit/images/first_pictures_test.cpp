// BMP, GIF and WebP of several pictures. Whole files against Pillow: tests/system/test_pillow.py.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/app/images/image_decode.hpp"
#include "common/app/images/picture_parts.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/app/images/whole_formats.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/images/more_files.hpp"
#include "tests/unit/images/picture_files.hpp"

namespace offramp {
namespace {

using namespace std::string_literals;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr ImageSize kFirstSize{45, 33};

struct FirstPictures : ::testing::Test {
    // Reads the file whole, by rows, and its size from the header.
    Rgb read(const std::string& file) {
        const std::string path = folder.write("a", file);
        Rgb rgb;
        const ImageSize size = ImageDecoder().decode_file_in_full(path, rgb);
        EXPECT_EQ(ImageDecoder().size_of_file(path), size);
        const auto rows = open_picture_rows(path);
        EXPECT_EQ(rows->size(), size);
        Rgb found(size.rgb_bytes());
        rows->read(size.height, found.data());
        EXPECT_EQ(found, rgb);
        return rgb;
    }
    std::string reason(const std::string& file) {
        return test::error_of<UnreadableItem>([&] { read(file); });
    }

    TempFolder folder;
};

std::span<const std::byte> bytes(const std::string& file) { return std::as_bytes(std::span(file)); }

Rgb on_canvas(const Rgb& pixels, const PictureRect& part, ImageSize canvas, const std::array<std::uint8_t, 3>& around) {
    Rgb all;
    for (std::uint32_t y = 0; y < canvas.height; ++y)
        for (std::uint32_t x = 0; x < canvas.width; ++x)
            for (std::size_t i = 0; i < 3; ++i) {
                const bool inside = x >= part.left && x < part.left + part.size.width && y >= part.top &&
                                    y < part.top + part.size.height;
                all.push_back(inside ? pixels[((y - part.top) * part.size.width + x - part.left) * 3 + i] : around[i]);
            }
    return all;
}

TEST_F(FirstPictures, GifInRowsAndInterlaced) {
    for (const ImageSize size : {kFirstSize, ImageSize{1, 1}, ImageSize{200, 150}, ImageSize{7, 2}, ImageSize{3, 5}}) {
        GifFile gif = gif_of(size);
        EXPECT_EQ(read(encode_gif(gif)), pixels_of(gif, gif.palette));
        gif.interlaced = true;
        EXPECT_EQ(read(encode_gif(gif)), pixels_of(gif, gif.palette));
    }
}

TEST_F(FirstPictures, UsesAGifsLocalPaletteAndGrayWithoutOne) {
    GifFile gif = gif_of(kFirstSize);
    gif.own_palette = Rgb(gif.palette.rbegin(), gif.palette.rend());
    EXPECT_EQ(read(encode_gif(gif)), pixels_of(gif, gif.own_palette));
    gif.palette = gif.own_palette = {};
    Rgb gray;
    for (const std::uint8_t color : gif.colors) gray.insert(gray.end(), 3, color);
    EXPECT_EQ(read(encode_gif(gif)), gray);
}

TEST_F(FirstPictures, AGifOnItsCanvas) {
    GifFile gif = gif_of({20, 10});
    gif.canvas = {40, 30};
    gif.picture.left = 7;
    gif.picture.top = 25;  // the canvas grows
    const Rgb pixels = pixels_of(gif, gif.palette);
    const auto color = [&](std::size_t i) {
        return std::array{gif.palette[3 * i], gif.palette[3 * i + 1], gif.palette[3 * i + 2]};
    };
    EXPECT_EQ(read(encode_gif(gif)), on_canvas(pixels, gif.picture, {40, 35}, color(0)));
    EXPECT_TRUE(gif_alpha(bytes(encode_gif(gif)), {40, 35}).empty());
    gif.transparent = gif.colors[3];
    const std::string file = encode_gif(gif);
    EXPECT_EQ(read(file), on_canvas(pixels, gif.picture, {40, 35}, color(gif.colors[3])));
    const auto alpha = gif_alpha(bytes(file), {40, 35});
    EXPECT_EQ(alpha[0], 0) << "around the picture";
    EXPECT_EQ(alpha[25 * 40 + 7 + 3], 0);
    EXPECT_EQ(alpha[25 * 40 + 7], gif.colors[0] == gif.colors[3] ? 0 : 255);
}

TEST_F(FirstPictures, ReadsTheFirstPictureOfAGifWithAnyRest) {
    GifFile gif = gif_of(kFirstSize);
    const std::string first = encode_gif(gif);
    gif.between = "!\xfe\x03"s + "abc\0"s + "\0"s;  // a comment, and a stray byte
    EXPECT_EQ(read(encode_gif(gif)), read(first));
    const std::string still = first.substr(0, first.size() - 1);
    EXPECT_EQ(read(still + ",broken"), read(first));
}

TEST_F(FirstPictures, DamagedGif) {
    const GifFile gif = gif_of(kFirstSize);
    const std::string file = encode_gif(gif);
    for (std::size_t kept = 16; kept + 4 < file.size(); ++kept)
        ASSERT_THAT(reason(file.substr(0, kept)), StartsWith("truncated GIF: its " + std::to_string(kept))) << kept;
    EXPECT_EQ(reason("GIF89a\1\0\1\0\0\0\0;"s), "damaged GIF: it holds no picture");
    const std::size_t codes = 13 + 768 + 10;
    EXPECT_EQ(reason(file.substr(0, codes) + "\x08\x02\xff\xff\0;"s), "damaged GIF: an undefined code");
    EXPECT_EQ(reason(file.substr(0, codes) + "\x08\0;"s), "damaged GIF: its data end before the image does");
    EXPECT_EQ(reason(file.substr(0, codes) + "\x0b"s + file.substr(codes + 1)), "damaged GIF: colours of 11 bits");
    GifFile bomb = gif;
    bomb.canvas = {60'000, 60'000};
    EXPECT_THAT(reason(encode_gif(bomb)), HasSubstr("at most 100 megapixels"));
}

std::string bmp_rows(ImageSize size, unsigned bits) {
    std::string rows;
    const Rgb random = noise({64, 64});
    const std::size_t count = (std::size_t{size.width} * bits + 31) / 32 * 4 * size.height;
    for (std::size_t i = 0; i < count; ++i) rows += static_cast<char>(random[i % random.size()]);
    return rows;
}

TEST_F(FirstPictures, BmpOf24Bits) {
    const std::string rows("\1\2\3\4\5\6\0\0\7\10\11\12\13\14\0\0", 16);  // two of two pixels, blue first
    BmpFile bmp{.size = {2, 2}, .masks = {}, .palette = {}, .rows = rows};
    EXPECT_EQ(read(encode_bmp(bmp)), (Rgb{9, 8, 7, 12, 11, 10, 3, 2, 1, 6, 5, 4}));
    bmp.top_down = true;
    EXPECT_EQ(read(encode_bmp(bmp)), (Rgb{3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10}));
    bmp.top_down = false;
    bmp.header = 12;
    EXPECT_EQ(read(encode_bmp(bmp)), (Rgb{9, 8, 7, 12, 11, 10, 3, 2, 1, 6, 5, 4}));
}

TEST_F(FirstPictures, ReadsBmpOfEachDepthByItsPaletteOrMasks) {
    std::string palette;
    for (unsigned i = 0; i < 256; ++i)
        palette += {static_cast<char>(i * 3), static_cast<char>(i * 5), static_cast<char>(i * 7), 0};
    for (const unsigned bits : {1U, 4U, 8U}) {
        const BmpFile bmp{.size = {13, 3},
                          .bits = bits,
                          .masks = {},
                          .palette = palette.substr(0, std::size_t{4} << bits),
                          .rows = bmp_rows({13, 3}, bits)};
        const Rgb pixels = read(encode_bmp(bmp));
        const auto first = static_cast<unsigned char>(bmp.rows[bmp.rows.size() / 3 * 2]);  // of the last row
        const unsigned number = first >> (8 - bits);
        EXPECT_EQ((Rgb{pixels[0], pixels[1], pixels[2]}),
                  (Rgb{static_cast<std::uint8_t>(number * 7), static_cast<std::uint8_t>(number * 5),
                       static_cast<std::uint8_t>(number * 3)}))
            << bits;
    }
    BmpFile sixteen{.size = {2, 1}, .bits = 16, .masks = {}, .palette = {}, .rows = std::string("\x1f\x7c\xe0\x07", 4)};
    EXPECT_EQ(read(encode_bmp(sixteen)), (Rgb{255, 0, 255, 8, 255, 0}));
    sixteen.compression = 3;
    sixteen.masks = {0xf800, 0x7e0, 0x1f};
    EXPECT_EQ(read(encode_bmp(sixteen)), (Rgb{123, 129, 255, 0, 255, 0}));
    BmpFile four{.size = {1, 1},
                 .header = 108,
                 .bits = 32,
                 .masks = {0xff, 0xff00, 0xff0000, 0xff000000},
                 .palette = {},
                 .rows = "\1\2\3\4"};
    four.compression = 3;
    EXPECT_EQ(read(encode_bmp(four)), (Rgb{1, 2, 3}));
    EXPECT_EQ(bmp_alpha(bytes(encode_bmp(four)), {1, 1}), (std::vector<std::uint8_t>{4}));
    four.compression = 0;
    EXPECT_EQ(read(encode_bmp(four)), (Rgb{3, 2, 1}));
    EXPECT_TRUE(bmp_alpha(bytes(encode_bmp(four)), {1, 1}).empty());
}

// Runs, literal pixels, an early end of a row, a move, and the end.
TEST_F(FirstPictures, BmpInRuns) {
    const std::string palette("\0\0\0\0\1\1\1\0\2\2\2\0\3\3\3\0\4\4\4\0", 20);
    BmpFile bmp{.size = {5, 3}, .bits = 8, .compression = 1, .masks = {}, .palette = palette, .rows = {}};
    bmp.rows = "\3\1\0\0"s + "\0\3\2\3\4\0\0\0"s + "\0\2\2\0\1\4\0\1"s;
    const auto gray = [](const std::vector<std::uint8_t>& numbers) {
        Rgb pixels;
        for (const std::uint8_t number : numbers) pixels.insert(pixels.end(), 3, number);
        return pixels;
    };
    EXPECT_EQ(read(encode_bmp(bmp)), gray({0, 0, 4, 0, 0, 2, 3, 4, 0, 0, 1, 1, 1, 0, 0}));
    bmp.bits = 4;
    bmp.compression = 2;
    bmp.rows = "\5\x12\0\0"s + "\0\3\x23\x40\0\0"s + "\0\1"s;
    EXPECT_EQ(read(encode_bmp(bmp)), gray({0, 0, 0, 0, 0, 2, 3, 4, 0, 0, 1, 2, 1, 2, 1}));
    bmp.rows = "\377\x12"s;  // longer than the row
    EXPECT_THAT(reason(encode_bmp(bmp)), StartsWith("truncated BMP: "));
}

TEST_F(FirstPictures, DamagedBmp) {
    const BmpFile bmp{.size = kFirstSize, .masks = {}, .palette = {}, .rows = bmp_rows(kFirstSize, 24)};
    const std::string file = encode_bmp(bmp);
    for (std::size_t kept = 16; kept + 1 < file.size(); kept += 7)
        ASSERT_THAT(reason(file.substr(0, kept)), StartsWith("truncated BMP: its " + std::to_string(kept))) << kept;
    const auto with = [&](std::size_t at, const std::string& text) {
        return std::string(file).replace(at, text.size(), text);
    };
    EXPECT_EQ(reason(with(14, "\x11")), "BMP with a header of 17 bytes, which is not supported");
    EXPECT_EQ(reason(with(28, "\x02")), "BMP with 2 bits per pixel, which is not supported");
    EXPECT_EQ(reason(with(30, "\x04")), "BMP with compression 4, which is not supported");
    EXPECT_EQ(reason(with(30, "\x01")), "BMP with compression 1 with 24 bits per pixel, which is not supported");
    EXPECT_EQ(reason(with(18, "\0\0"s)), "damaged BMP: it has no pixels");
    EXPECT_THAT(reason(with(20, "\x10\x10")), HasSubstr("megapixels"));
    EXPECT_THAT(reason("BM is how this text begins, and it names no picture"), HasSubstr("not an image"));
}

TEST_F(FirstPictures, ReadsTheFirstPictureOfAnAnimatedWebp) {
    const ImageSize small{20, 10};
    const PictureRect place{.left = 6, .top = 4, .size = small};
    const std::string first = encode_webp(small, noise(small));
    const std::string file = animated_webp({40, 30}, {{place, first}, {place, encode_webp(small, gradient(small))}});
    EXPECT_EQ(read(file), on_canvas(noise(small), place, {40, 30}, {0, 0, 0}));
    EXPECT_TRUE(webp_alpha(bytes(file), {40, 30}).empty());
    const std::string seen = animated_webp({40, 30}, {{place, first}}, true);
    EXPECT_EQ(webp_alpha(bytes(seen), {40, 30})[0], 0) << "around the picture";
    EXPECT_EQ(webp_alpha(bytes(seen), {40, 30})[4 * 40 + 6], 255);
    for (std::size_t kept = 30; kept < file.size(); kept += 3)
        ASSERT_THAT(reason(file.substr(0, kept)), StartsWith("truncated WebP")) << kept;
    EXPECT_EQ(reason(animated_webp({10, 8}, {{place, first}})), "damaged WebP") << "beyond its canvas";
    EXPECT_EQ(reason(animated_webp({10, 8}, {})), "damaged WebP") << "no picture";
    EXPECT_THAT(reason(animated_webp({16'000, 16'000}, {{place, first}})), HasSubstr("at most 100 megapixels"));
}

}  // namespace
}  // namespace offramp
