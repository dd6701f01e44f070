#include "common/app/images/picture_parts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/app/images/image_decode.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/images/picture_files.hpp"

namespace offramp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr ImageSize kRowsSize{83, 61};

std::string reason_of_rows(const std::string& path) {
    return test::error_of<UnreadableItem>([&] {
        auto rows = open_picture_rows(path);
        Rgb row(std::size_t{rows->size().width} * 3);
        for (std::uint32_t y = 0; y < rows->size().height; ++y) rows->read(1, row.data());
    });
}

struct PictureRowsTest : ::testing::Test {
    void expect_the_decoders(const std::string& path) {
        Rgb wanted;
        const ImageSize size = ImageDecoder().decode_file_in_full(path, wanted);
        const auto rows = open_picture_rows(path);
        ASSERT_EQ(rows->size(), size) << path;
        Rgb found(size.rgb_bytes());
        for (std::uint32_t y = 0, some = 1; y < size.height; y += some, some = std::min(size.height - y, some + 3))
            rows->read(some, found.data() + std::size_t{y} * size.width * 3);
        EXPECT_EQ(found, wanted) << path;
    }

    TempFolder folder;
};

TEST_F(PictureRowsTest, EqualTheWholePicturesPixelsInEachFormat) {
    const Rgb pixels = noise(kRowsSize);
    const std::string jpeg = encode_jpeg(kRowsSize, pixels);
    expect_the_decoders(folder.write("a.png", encode_png(kRowsSize, pixels)));
    expect_the_decoders(folder.write("a.jpg", jpeg));
    expect_the_decoders(folder.write("inks.jpg", encode_jpeg(kRowsSize, pixels, JpegColors::Cmyk)));
    expect_the_decoders(folder.write("gray.jpg", encode_jpeg(kRowsSize, pixels, JpegColors::Gray)));
    expect_the_decoders(
        folder.write("p.jpg", encode_jpeg(kRowsSize, pixels, JpegColors::Color, JpegScans::Progressive)));
    expect_the_decoders(folder.write("turned.jpg", with_exif(jpeg, exif_of(6))));
    expect_the_decoders(folder.write("a.webp", encode_webp(kRowsSize, pixels)));
    PngLayout palette{.color_type = 3, .bit_depth = 8, .interlaced = true, .palette = {}, .transparency = {}};
    for (unsigned i = 0; i < 3 * 256; ++i) palette.palette.push_back(static_cast<std::uint8_t>(i * 7));
    std::vector<std::uint8_t> numbers(kRowsSize.pixels());
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::uint8_t>(i * 31);
    expect_the_decoders(folder.write("interlaced.png", encode_png(kRowsSize, palette, numbers)));
    palette.interlaced = false;
    expect_the_decoders(folder.write("palette.png", encode_png(kRowsSize, palette, numbers)));
}

TEST_F(PictureRowsTest, AreReadFromARegionOfAFile) {
    const std::string png = encode_png(kRowsSize, noise(kRowsSize));
    const std::string path = folder.write("many", "xxxx" + png + "yyyy");
    auto rows = open_picture_rows(PicturePlace(path, 4, png.size()));
    Rgb found(kRowsSize.rgb_bytes());
    rows->read(kRowsSize.height, found.data());
    EXPECT_EQ(found, noise(kRowsSize));
}

TEST_F(PictureRowsTest, AreReadUpToTheEndOfATruncatedFile) {
    const std::string png = encode_png(kRowsSize, noise(kRowsSize));
    EXPECT_THAT(reason_of_rows(folder.write("t.png", png.substr(0, png.size() / 2))), HasSubstr("truncated PNG"));
    const std::string jpeg = encode_jpeg(kRowsSize, noise(kRowsSize));
    EXPECT_THAT(reason_of_rows(folder.write("t.jpg", jpeg.substr(0, jpeg.size() / 2))), HasSubstr("truncated JPEG"));
    constexpr ImageSize kLarger{300, 300};  // libpng reads some kilobytes ahead
    const Rgb whole = noise(kLarger);
    const std::string larger = encode_png(kLarger, whole);
    auto rows = open_picture_rows(folder.write("l.png", larger.substr(0, larger.size() / 2)));
    Rgb first(std::size_t{kLarger.width} * 3 * 100);
    rows->read(100, first.data());
    EXPECT_TRUE(std::equal(first.begin(), first.end(), whole.begin()));
}

TEST_F(PictureRowsTest, ReportDamage) {
    std::string jpeg = encode_jpeg(kRowsSize, noise(kRowsSize));
    for (std::size_t at = jpeg.size() / 2; at < jpeg.size() / 2 + 40; ++at) jpeg[at] = static_cast<char>(0xff);
    EXPECT_THAT(reason_of_rows(folder.write("d.jpg", jpeg)), HasSubstr("damaged JPEG"));
    std::string png = encode_png(kRowsSize, noise(kRowsSize));
    png[png.size() / 2] = static_cast<char>(png[png.size() / 2] ^ 1);
    EXPECT_THAT(reason_of_rows(folder.write("d.png", png)), HasSubstr("damaged PNG"));
    EXPECT_THAT(reason_of_rows(folder.write("d.txt", "no picture")), HasSubstr("not an image"));
}

// A PNG's header is enough for its size; only a picture that must be held whole is refused.
TEST_F(PictureRowsTest, RefuseLargePicturesThatNeedFullMemory) {
    std::string interlaced = png_header({20'000, 20'000});
    EXPECT_EQ(open_picture_rows(folder.write("big.png", interlaced + std::string(200, 'x')))->size(),
              (ImageSize{20'000, 20'000}))
        << "its rows are read on demand";
    interlaced[28] = 1;
    EXPECT_THAT(reason_of_rows(folder.write("i.png", interlaced)),
                AllOf(HasSubstr("an interlaced PNG of 20000 x 20000"), HasSubstr("limit for these is 100 megapixels")));
    EXPECT_THAT(reason_of_rows(folder.write("huge.png", png_header({100'000, 100'000}))),
                HasSubstr("at most 4000 megapixels"));
}

}  // namespace
}  // namespace offramp
