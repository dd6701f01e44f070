#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>
#include <tiff.h>

#include "common/app/images/image_decode.hpp"
#include "common/app/images/image_format.hpp"
#include "common/app/images/picture_parts.hpp"
#include "common/app/images/png.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "tests/unit/images/picture_files.hpp"
#include "tests/unit/images/tiff_files.hpp"

namespace offramp {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr ImageSize kPicture{23, 17};

struct InFull {
    ImageSize size;
    Rgb rgb, by_rows;
    BesideColours beside;

    explicit InFull(const std::string& file) {
        const TempFolder folder;
        const std::string path = folder.write("a", file);
        size = ImageDecoder().decode_file_in_full(path, rgb, &beside);
        EXPECT_EQ(ImageDecoder().size_of_file(path), size);
        const auto rows = open_picture_rows(path);
        EXPECT_EQ(rows->size(), size);
        by_rows.resize(size.rgb_bytes());
        for (std::uint32_t y = 0; y < size.height; ++y) rows->read(1, by_rows.data() + std::size_t{y} * size.width * 3);
        EXPECT_EQ(by_rows, rgb);
    }
    std::string profile() const {
        return {reinterpret_cast<const char*>(beside.profile.data()), beside.profile.size()};
    }
};

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

// --- PNG of 16 bits a channel

// Big-endian numbers, many at the border between two 8-bit values.
std::vector<std::uint16_t> sixteen_bit_numbers(std::size_t count) {
    std::vector<std::uint16_t> numbers;
    for (std::size_t i = 0; i < count; ++i)
        numbers.push_back(static_cast<std::uint16_t>(i % 5 == 0 ? 128 + 257 * i : i * 7919));
    return numbers;
}

std::vector<std::uint8_t> big_endian_rows(const std::vector<std::uint16_t>& numbers) {
    std::vector<std::uint8_t> rows;
    for (const std::uint16_t number : numbers) {
        rows.push_back(static_cast<std::uint8_t>(number >> 8U));
        rows.push_back(static_cast<std::uint8_t>(number & 0xffU));
    }
    return rows;
}

int nearest_of_8_bits(std::uint16_t number) { return static_cast<int>(static_cast<double>(number) / 257.0 + 0.5); }

TEST(PngOf16Bits, ScalesEveryColourTypeToTheNearest) {
    struct Kind {
        int type;
        std::size_t channels;
    };
    for (const Kind kind : {Kind{PNG_COLOR_TYPE_GRAY, 1}, Kind{PNG_COLOR_TYPE_GRAY_ALPHA, 2},
                            Kind{PNG_COLOR_TYPE_RGB, 3}, Kind{PNG_COLOR_TYPE_RGB_ALPHA, 4}})
        for (const bool interlaced : {false, true}) {
            const auto numbers = sixteen_bit_numbers(kPicture.pixels() * kind.channels);
            const InFull found(encode_png(
                kPicture,
                {.color_type = kind.type, .bit_depth = 16, .interlaced = interlaced, .palette = {}, .transparency = {}},
                big_endian_rows(numbers)));
            ASSERT_EQ(found.size, kPicture);
            for (std::size_t i = 0; i < kPicture.pixels(); ++i) {
                const std::uint16_t* const pixel = numbers.data() + i * kind.channels;
                for (std::size_t c = 0; c < 3; ++c)
                    ASSERT_EQ(found.rgb[3 * i + c], nearest_of_8_bits(pixel[kind.channels < 3 ? 0 : c])) << kind.type;
                if (kind.channels % 2 == 0) {
                    ASSERT_EQ(found.beside.alpha[i], nearest_of_8_bits(pixel[kind.channels - 1])) << kind.type;
                }
            }
            EXPECT_EQ(found.beside.alpha.empty(), kind.channels % 2 == 1);
        }
}

TEST(PngOf16Bits, GrayEqualsThatOfATiff) {
    const auto numbers = sixteen_bit_numbers(kPicture.pixels());
    TiffPage page = tiff_page(kPicture, {});
    page.values = numbers;
    page.samples = 1, page.bits = 16, page.photometric = PHOTOMETRIC_MINISBLACK;
    EXPECT_EQ(InFull(encode_png(kPicture, {.color_type = 0, .bit_depth = 16, .palette = {}, .transparency = {}},
                                big_endian_rows(numbers)))
                  .rgb,
              InFull(encode_tiff({page})).rgb);
}

TEST(PngOf16Bits, WarnsOfNumbersThatUseFewBits) {
    EXPECT_THAT(warning_about_16_bits(4095), AllOf(HasSubstr("uses only 12 of them"), HasSubstr("4095"),
                                                   HasSubstr("dark"), HasSubstr("-evaluate multiply 16`")));
    EXPECT_THAT(warning_about_16_bits(16383), HasSubstr("uses only 14 of them"));
    EXPECT_THAT(warning_about_16_bits(1), HasSubstr("uses only 1 of them"));
    for (const int largest : {0, 16384, 65535})
        EXPECT_EQ(warning_about_16_bits(static_cast<std::uint16_t>(largest)), "") << largest;
}

// --- Alpha

TEST(AlphaBeside, ReadsPngChannelsPalettesAndTransparentColours) {
    const auto alpha_of = [](const PngLayout& layout, const std::vector<std::uint8_t>& rows) {
        return InFull(encode_png({2, 1}, layout, rows)).beside.alpha;
    };
    EXPECT_THAT(alpha_of({.color_type = PNG_COLOR_TYPE_RGB_ALPHA, .palette = {}, .transparency = {}},
                         {9, 8, 7, 0, 1, 2, 3, 128}),
                ElementsAre(0, 128));
    EXPECT_THAT(alpha_of({.color_type = PNG_COLOR_TYPE_GRAY_ALPHA, .palette = {}, .transparency = {}}, {9, 3, 8, 255}),
                ElementsAre(3, 255));
    EXPECT_THAT(
        alpha_of({.color_type = PNG_COLOR_TYPE_PALETTE, .palette = {1, 2, 3, 4, 5, 6}, .transparency = {7}}, {1, 0}),
        ElementsAre(255, 7));
    EXPECT_THAT(alpha_of({.color_type = PNG_COLOR_TYPE_GRAY, .palette = {}, .transparency = {200}}, {200, 201}),
                ElementsAre(0, 255));
    EXPECT_THAT(
        alpha_of({.color_type = PNG_COLOR_TYPE_RGB, .palette = {}, .transparency = {1, 2, 3}}, {1, 2, 3, 1, 2, 4}),
        ElementsAre(0, 255));
    EXPECT_THAT(alpha_of({.color_type = PNG_COLOR_TYPE_RGB, .palette = {}, .transparency = {}}, {1, 2, 3, 1, 2, 4}),
                IsEmpty());
}

TEST(AlphaBeside, ReadsWebpAlpha) {
    EXPECT_THAT(InFull(encode_webp_rgba({2, 1}, {9, 8, 7, 0, 1, 2, 3, 128})).beside.alpha, ElementsAre(0, 128));
    EXPECT_THAT(InFull(encode_webp({2, 1}, {9, 8, 7, 1, 2, 3})).beside.alpha, IsEmpty());
    EXPECT_THAT(InFull(encode_jpeg({2, 1}, {9, 8, 7, 1, 2, 3})).beside.alpha, IsEmpty());
}

TEST(AlphaBeside, ReadsTheDeclaredExtraChannelOfATiff) {
    TiffPage page = tiff_page({2, 1}, {});
    page.samples = 5;
    page.values = {10, 20, 30, 99, 255, 40, 50, 60, 98, 128};
    page.extra = {EXTRASAMPLE_UNSPECIFIED, EXTRASAMPLE_UNASSALPHA};
    for (const int planar : {PLANARCONFIG_CONTIG, PLANARCONFIG_SEPARATE})
        for (const ImageSize tile : {ImageSize{0, 0}, ImageSize{16, 16}}) {
            page.planar = static_cast<std::uint16_t>(planar);
            page.tile = tile;
            const InFull found(encode_tiff({page}));
            EXPECT_THAT(found.beside.alpha, ElementsAre(255, 128));
            EXPECT_EQ(found.rgb, (Rgb{10, 20, 30, 40, 50, 60}));
            page.extra[1] = EXTRASAMPLE_ASSOCALPHA;
            EXPECT_THAT(InFull(encode_tiff({page})).beside.alpha, ElementsAre(255, 128));
            page.extra[1] = EXTRASAMPLE_UNSPECIFIED;
            EXPECT_THAT(InFull(encode_tiff({page})).beside.alpha, IsEmpty());
            page.extra[1] = EXTRASAMPLE_UNASSALPHA;
        }
    page = tiff_page({2, 1}, {});
    page.samples = 2, page.bits = 16, page.photometric = PHOTOMETRIC_MINISBLACK;
    page.values = {65535, 0, 65535, 32896};
    page.extra = {EXTRASAMPLE_UNASSALPHA};
    EXPECT_THAT(InFull(encode_tiff({page})).beside.alpha, ElementsAre(0, 128));
}

TEST(AlphaBeside, IsTurnedWithThePicture) {
    const std::string png =
        encode_png({2, 1}, {.color_type = PNG_COLOR_TYPE_RGB_ALPHA, .palette = {}, .transparency = {}},
                   {9, 9, 9, 10, 9, 9, 9, 20});
    const InFull found(png_with_chunk(png, PngPlace::BeforePixels, "eXIf", exif_of(8)));
    EXPECT_EQ(found.size, (ImageSize{1, 2}));
    EXPECT_THAT(found.beside.alpha, ElementsAre(20, 10));
}

// --- ICC profiles

TEST(ProfileBeside, IsFoundInEveryFormat) {
    for (const std::size_t bytes : {std::size_t{160}, std::size_t{3'144}, std::size_t{150'000}}) {
        const std::string profile = rgb_profile(bytes);
        const Rgb pixels = gradient(kPicture);
        EXPECT_EQ(
            InFull(
                encode_png(
                    kPicture,
                    {.color_type = PNG_COLOR_TYPE_RGB, .palette = {}, .transparency = {}, .profile = bytes_of(profile)},
                    pixels))
                .profile(),
            profile);
        for (const std::size_t most : {std::size_t{65'519}, std::size_t{1'000}})
            EXPECT_EQ(InFull(jpeg_with_profile(encode_jpeg(kPicture, pixels), profile, most)).profile(), profile);
        EXPECT_EQ(InFull(webp_with_profile(encode_webp(kPicture, pixels), kPicture, profile)).profile(), profile);
        TiffPage page = tiff_page(kPicture, pixels);
        page.profile = profile;
        EXPECT_EQ(InFull(encode_tiff({page})).profile(), profile);
    }
}

TEST(ProfileBeside, IgnoresDamagedProfilesAndOtherColours) {
    const std::string jpeg = encode_jpeg(kPicture, gradient(kPicture)), profile = rgb_profile(3'000);
    const auto of = [&](const std::string& bytes) {
        return InFull(jpeg_with_profile(jpeg, bytes, 1'000)).profile().size();
    };
    EXPECT_EQ(of(profile), profile.size());
    for (const char* colours : {"GRAY", "CMYK", "Lab "})
        EXPECT_EQ(of(std::string(profile).replace(16, 4, colours)), 0U);
    EXPECT_EQ(of(std::string(profile).replace(36, 4, "....")), 0U);
    EXPECT_EQ(of(profile.substr(0, 131)), 0U);
    std::string lacks_one = jpeg_with_profile(jpeg, profile, 1'000);
    lacks_one.erase(2, 1'018);
    EXPECT_EQ(InFull(lacks_one).profile(), "");
    EXPECT_EQ(InFull(jpeg).profile(), "");
    EXPECT_EQ(InFull(encode_webp(kPicture, gradient(kPicture))).profile(), "");
}

// --- Orientation of PNG

TEST(PngOrientation, IsFoundAtAnyPosition) {
    const Rgb stored = gradient(kPicture);
    const std::string png = encode_png(kPicture, stored);
    for (unsigned value = 1; value <= 8; ++value)
        for (const PngPlace place : {PngPlace::BeforePixels, PngPlace::BehindPixels})
            for (const std::string& front : {std::string(), std::string("Exif\0\0", 6)}) {
                const auto turn = static_cast<Orientation>(value);
                const InFull found(png_with_chunk(png, place, "eXIf", front + exif_of(value, TiffOrder::BigEndian)));
                Rgb wanted(stored.size());
                bring_upright(stored.data(), kPicture, turn, wanted.data());
                EXPECT_EQ(found.size, upright_size(kPicture, turn)) << value;
                EXPECT_EQ(found.rgb, wanted) << value;
            }
}

TEST(PngOrientation, DamagedMetadataCountsAsUpright) {
    const std::string png = encode_png(kPicture, gradient(kPicture));
    const auto of = [](const std::string& file) {
        return png_orientation(picture_bytes(std::as_bytes(std::span(file))));
    };
    EXPECT_EQ(of(png_with_chunk(png, PngPlace::BeforePixels, "eXIf", exif_of(6))), Orientation::QuarterClockwise);
    for (const std::string& exif : {exif_of(9), exif_of(0), std::string("II"), std::string()})
        EXPECT_EQ(of(png_with_chunk(png, PngPlace::BeforePixels, "eXIf", exif)), Orientation::Upright);
    const std::string whole = png_with_chunk(png, PngPlace::BehindPixels, "eXIf", exif_of(6));
    for (std::size_t kept = 0; kept < whole.size(); ++kept) {  // no byte outside is read
        const std::string cut = whole.substr(0, kept);
        const Orientation found = of(std::string(cut.data(), cut.size()));
        EXPECT_TRUE(found == Orientation::Upright || found == Orientation::QuarterClockwise) << kept;
    }
    std::string endless = png;
    endless.replace(33, 4, "\xff\xff\xff\xff");  // the length of the chunk after the header
    EXPECT_EQ(of(endless), Orientation::Upright);
}

}  // namespace
}  // namespace offramp
