#include "common/app/images/image_decode.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>
#include <rapidcheck.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "common/app/images/jpeg.hpp"
#include "common/app/images/resize.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "tests/unit/images/picture_files.hpp"

namespace offramp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::StrEq;

constexpr ImageSize kSize{48, 32};

Rgb decode_in(const PictureFrame& frame, const std::string& file) {
    Rgb pixels(frame.size.rgb_bytes());
    ImageDecoder().decode(std::as_bytes(std::span(file)), frame, std::as_writable_bytes(std::span(pixels)));
    return pixels;
}

Rgb decode(const std::string& file, ImageSize size = kSize) { return decode_in(size, file); }

template <typename Decode>
std::string reason_of_refusal(Decode decode_it) {
    try {
        decode_it();
    } catch (const UnreadableItem& unreadable) {
        EXPECT_EQ(std::string(unreadable.what()).find('\n'), std::string::npos);
        return unreadable.what();
    }
    return "it was read";
}

std::string reason_of(const std::string& path) {
    Rgb pixels(kSize.rgb_bytes());
    return reason_of_refusal(
        [&] { ImageDecoder().decode_file(path, kSize, std::as_writable_bytes(std::span(pixels))); });
}

int largest_difference(const Rgb& a, const Rgb& b) {
    int largest = a.size() == b.size() ? 0 : 256;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
    return largest;
}

TEST(ImageDecode, PngIsExact) { EXPECT_EQ(decode(encode_png(kSize, gradient(kSize))), gradient(kSize)); }

TEST(ImageDecode, JpegIsNearlyExact) {
    for (const JpegScans scans : {JpegScans::Baseline, JpegScans::Progressive})
        EXPECT_LE(
            largest_difference(decode(encode_jpeg(kSize, gradient(kSize), JpegColors::Color, scans)), gradient(kSize)),
            6);
}

// The middle of the whole picture as Resizer resizes it.
Rgb middle_of(const Rgb& pixels, ImageSize size, const PictureFrame& frame) {
    Rgb middle(frame.size.rgb_bytes());
    Resizer().resize_part(pixels.data(), size, frame.part_of(size), middle.data(), frame.size);
    return middle;
}

TEST(ImageDecode, TheMiddleOfAPicture) {
    for (const ImageSize size :
         {kSize, ImageSize{32, 48}, ImageSize{40, 40}, ImageSize{32, 32}, ImageSize{3, 90}, ImageSize{1, 1}})
        for (const PictureFrame& frame :
             {PictureFrame({32, 32}, 32), PictureFrame({32, 32}, 40), PictureFrame({40, 40}, 41)})
            EXPECT_EQ(decode_in(frame, encode_png(size, noise(size))), middle_of(noise(size), size, frame))
                << frame.size.width << " of " << frame.shorter_side << " of " << size.width << " x " << size.height;
}

// The picture decoded at this scale, and cut by its own size.
Rgb middle_of_jpeg(const std::string& file, ImageSize size, ImageSize at_scale, const PictureFrame& frame) {
    JpegPicture jpeg(std::as_bytes(std::span(file)));
    const ImageSize scaled = jpeg.scale_towards(at_scale);
    EXPECT_EQ(scaled, at_scale);
    Rgb pixels(scaled.rgb_bytes()), middle(frame.size.rgb_bytes());
    jpeg.read(scaled.height, pixels.data());
    Resizer().resize_part(pixels.data(), scaled, frame.part_of(size), middle.data(), frame.size, frame.interpolation);
    return middle;
}

// Never below the frame's shorter side: 64 of 100 is decoded at a half, although a quarter would do for 64 alone. Half
// of 403 x 301 is 202 x 151, whose middle would differ. A cubic does the last halving itself.
TEST(ImageDecode, TheMiddleOfALargePhotographEqualsThatOfFullSize) {
    const ImageSize size{403, 301};
    const std::string file = encode_jpeg(size, noise(size));
    struct Case {
        PictureFrame frame;
        ImageSize at_scale;
    };
    for (const Case& c : {Case{PictureFrame({64, 64}, 75), {101, 76}}, Case{PictureFrame({64, 64}, 100), {202, 151}},
                          Case{PictureFrame({150, 150}, 151), {202, 151}}, Case{PictureFrame({150, 150}, 152), size},
                          Case{PictureFrame({32, 32}, 37, Interpolation::Bicubic), {101, 76}},
                          Case{PictureFrame({32, 32}, 40, Interpolation::Bicubic), {202, 151}},
                          Case{PictureFrame({64, 64}, 0, Interpolation::Bicubic), {202, 151}}})
        EXPECT_EQ(decode_in(c.frame, file), middle_of_jpeg(file, size, c.at_scale, c.frame))
            << c.frame.size.width << " of " << c.frame.shorter_side;
    EXPECT_NE(PictureFrame({64, 64}, 75).part_of(size), PictureFrame({64, 64}, 75).part_of({101, 76}))
        << "both sizes have the same middle: the test shows nothing";
}

TEST(ImageDecode, LosslessWebpIsExact) {
    EXPECT_EQ(decode(encode_webp(kSize, gradient(kSize))), gradient(kSize));
    const TempFolder folder;
    Rgb pixels;
    EXPECT_EQ(ImageDecoder().decode_file_in_full(folder.write("a.jpg", encode_webp(kSize, gradient(kSize))), pixels),
              kSize);
    EXPECT_EQ(pixels, gradient(kSize));
}

TEST(ImageDecode, GrayJpegBecomesRgb) {
    const Rgb pixels = decode(encode_jpeg(kSize, gradient(kSize), JpegColors::Gray));
    for (std::size_t i = 0; i < pixels.size(); i += 3)
        ASSERT_TRUE(pixels[i] == pixels[i + 1] && pixels[i] == pixels[i + 2]) << i;
    EXPECT_LT(pixels[0] + 20, pixels[pixels.size() - 1]);
}

TEST(ImageDecode, AScaledDecodeOfALargeJpegShowsTheSamePicture) {
    for (const std::uint32_t factor : {2U, 3U, 5U, 8U, 16U}) {
        const ImageSize large{kSize.width * factor, kSize.height * factor};
        EXPECT_LE(largest_difference(decode(encode_jpeg(large, gradient(large))), gradient(kSize)), 8) << factor;
    }
}

TEST(ImageDecode, ScaledDecodingNeverGoesBelowTheTarget) {
    const std::string file = encode_jpeg({400, 100}, gradient({400, 100}));
    const auto scaled = [&](ImageSize target) {
        return JpegPicture(std::as_bytes(std::span(file))).scale_towards(target);
    };
    EXPECT_EQ(scaled({200, 50}), (ImageSize{200, 50}));
    EXPECT_EQ(scaled({201, 50}), (ImageSize{400, 100}));
    EXPECT_EQ(scaled({10, 60}), (ImageSize{400, 100}));
    EXPECT_EQ(scaled({1, 1}), (ImageSize{50, 13}));
}

TEST(ImageDecode, InFullAnImageKeepsItsSize) {
    const TempFolder folder;
    const ImageSize size{71, 33};
    Rgb pixels;
    EXPECT_EQ(ImageDecoder().decode_file_in_full(folder.write("a.png", encode_png(size, gradient(size))), pixels),
              size);
    EXPECT_EQ(pixels, gradient(size));
    EXPECT_EQ(ImageDecoder().decode_file_in_full(folder.write("a.jpg", encode_jpeg(size, gradient(size))), pixels),
              size);
    EXPECT_LE(largest_difference(pixels, gradient(size)), 6);
    EXPECT_THROW(ImageDecoder().decode_file_in_full(folder.write("b.jpg", "no image"), pixels), UnreadableItem);
}

TEST(ImageDecode, PaletteIsExpandedAndItsTransparencyDropped) {
    const PngLayout layout{
        .color_type = PNG_COLOR_TYPE_PALETTE, .palette = {10, 20, 30, 200, 100, 50}, .transparency = {0}};
    EXPECT_EQ(decode(encode_png({2, 1}, layout, {0, 1}), {2, 1}), (Rgb{10, 20, 30, 200, 100, 50}));
    const PngLayout packed{.color_type = PNG_COLOR_TYPE_PALETTE, .bit_depth = 1, .palette = {1, 2, 3, 4, 5, 6}};
    EXPECT_EQ(decode(encode_png({2, 1}, packed, {0b01000000}), {2, 1}), (Rgb{1, 2, 3, 4, 5, 6}));
}

TEST(ImageDecode, GrayIsExpanded) {
    EXPECT_EQ(decode(encode_png({2, 1}, {.color_type = PNG_COLOR_TYPE_GRAY}, {7, 250}), {2, 1}),
              (Rgb{7, 7, 7, 250, 250, 250}));
    EXPECT_EQ(decode(encode_png({2, 1}, {.color_type = PNG_COLOR_TYPE_GRAY, .bit_depth = 2}, {0b01110000}), {2, 1}),
              (Rgb{85, 85, 85, 255, 255, 255}));
}

TEST(ImageDecode, AlphaIsDroppedNotBlended) {
    EXPECT_EQ(decode(encode_png({1, 1}, {.color_type = PNG_COLOR_TYPE_RGB_ALPHA}, {9, 8, 7, 0}), {1, 1}),
              (Rgb{9, 8, 7}));
    EXPECT_EQ(decode(encode_webp_rgba({2, 1}, {9, 8, 7, 0, 1, 2, 3, 128}), {2, 1}), (Rgb{9, 8, 7, 1, 2, 3}));
    EXPECT_EQ(decode(encode_png({1, 1}, {.color_type = PNG_COLOR_TYPE_GRAY_ALPHA}, {9, 128}), {1, 1}), (Rgb{9, 9, 9}));
}

TEST(ImageDecode, InterlacedPngIsExact) {
    const PngLayout layout{.color_type = PNG_COLOR_TYPE_RGB, .interlaced = true};
    EXPECT_EQ(decode(encode_png(kSize, layout, gradient(kSize))), gradient(kSize));
}

TEST(ImageDecode, DetectsTheFormatByContentNotByName) {
    const TempFolder folder;
    EXPECT_EQ(reason_of(folder.write("png.jpg", encode_png(kSize, gradient(kSize)))), "it was read");
    EXPECT_EQ(reason_of(folder.write("jpeg.png", encode_jpeg(kSize, gradient(kSize)))), "it was read");
}

TEST(BadImage, ZeroBytes) {
    const TempFolder folder;
    EXPECT_EQ(reason_of(folder.write("a.jpg", "")), "an empty file (0 bytes)");
}

TEST(BadImage, Missing) { EXPECT_EQ(reason_of("/no/such.jpg"), "cannot be opened: No such file or directory"); }

TEST(BadImage, AFolder) {
    const TempFolder folder;
    std::filesystem::create_directory(folder.path() / "x.jpg");
    EXPECT_EQ(reason_of(folder / "x.jpg"), "a folder, not a file");
}

TEST(BadImage, DoesNotWaitForANamedPipe) {
    const TempFolder folder;
    ASSERT_EQ(::mkfifo((folder / "x.jpg").c_str(), 0644), 0);
    EXPECT_EQ(reason_of(folder / "x.jpg"), "not a regular file");
}

TEST(BadImage, NoPermission) {
    const TempFolder folder;
    const std::string file = folder.write("a.jpg", encode_jpeg(kSize, gradient(kSize)));
    const std::string locked = folder / "locked";
    std::filesystem::create_directory(locked);
    for (const std::string& path : {file, locked}) std::filesystem::permissions(path, std::filesystem::perms::none);
    const auto user = static_cast<uid_t>(::setfsuid(65534));  // only this thread, and only as root
    const std::string file_reason = reason_of(file);
    const std::string folder_reason = reason_of(locked);
    ::setfsuid(user);
    EXPECT_EQ(file_reason, "cannot be opened: Permission denied");
    EXPECT_EQ(folder_reason, "a folder that cannot be listed: Permission denied");
}

TEST(BadImage, NotAnImage) {
    const TempFolder folder;
    EXPECT_THAT(reason_of(folder.write("a.jpg", "hello, this is text\n")), StartsWith("not an image"));
    EXPECT_THAT(reason_of(folder.write("b.jpg", "x")), StartsWith("not an image"));
}

TEST(BadImage, NamesOtherFormats) {
    const TempFolder folder;
    const auto reason = [&](const std::string& bytes) { return reason_of(folder.write("a.jpg", bytes)); };
    EXPECT_THAT(reason(std::string("II*\0............", 16)), HasSubstr("TIFF"));
    EXPECT_THAT(reason(std::string("\0\0\0\x18"
                                   "ftypheic....",
                                   16)),
                StrEq("a HEIF or AVIF image; only JPEG, PNG, TIFF, WebP, BMP and GIF are read"));
}

// A file cut anywhere is refused, and is called truncated if enough is left to recognise it.
TEST(BadImage, TruncatedAtAnyPlace) {
    const std::string jpeg = encode_jpeg(kSize, gradient(kSize));
    const std::string progressive = encode_jpeg(kSize, gradient(kSize), JpegColors::Color, JpegScans::Progressive);
    const std::string png = encode_png(kSize, gradient(kSize));
    const std::string webp = encode_webp(kSize, gradient(kSize));
    for (const std::string& whole : {jpeg, progressive, png, webp})
        for (std::size_t kept = 16; kept < whole.size(); ++kept)
            ASSERT_THAT(reason_of_refusal([&] { decode(whole.substr(0, kept)); }),
                        AllOf(StartsWith("truncated"), HasSubstr(std::to_string(kept) + " bytes")))
                << "of " << whole.size();
}

TEST(BadImage, TruncatedJpegWithAWholeThumbnail) {
    const std::string thumbnail = encode_jpeg({8, 8}, gradient({8, 8}));
    const std::string jpeg = encode_jpeg(kSize, gradient(kSize));
    std::string segment = "\xff\xe1";
    segment += static_cast<char>((thumbnail.size() + 2) >> 8);
    segment += static_cast<char>((thumbnail.size() + 2) & 0xff);
    const std::string file = jpeg.substr(0, 2) + segment + thumbnail + jpeg.substr(2);
    EXPECT_EQ(decode(file), decode(jpeg));
    const TempFolder folder;
    EXPECT_THAT(reason_of(folder.write("a.jpg", file.substr(0, file.size() - 100))), StartsWith("truncated JPEG"));
}

TEST(BadImage, DamagedData) {
    const TempFolder folder;
    std::string jpeg = encode_jpeg(kSize, gradient(kSize));
    for (std::size_t i = jpeg.size() / 2; i + 2 < jpeg.size(); ++i) jpeg[i] = '\x01';
    EXPECT_THAT(reason_of(folder.write("a.jpg", jpeg)), StartsWith("damaged JPEG: "));
    std::string png = encode_png(kSize, gradient(kSize));
    png[png.size() / 2] = static_cast<char>(png[png.size() / 2] ^ 0x55);
    EXPECT_THAT(reason_of(folder.write("a.png", png)), StartsWith("damaged PNG: "));
}

TEST(BadImage, IgnoresBytesAfterTheEnd) {
    EXPECT_EQ(decode(encode_jpeg(kSize, gradient(kSize)) + "trailer"), decode(encode_jpeg(kSize, gradient(kSize))));
    EXPECT_EQ(decode(encode_png(kSize, gradient(kSize)) + "trailer"), gradient(kSize));
}

TEST(BadImage, WebpOfManyPicturesOrPixels) {
    const ImageSize one{1, 1};
    std::string file = webp_with_exif(encode_webp(one, {9, 9, 9}), one, exif_of(1));
    const TempFolder folder;
    std::string animated = file;
    animated[20] = '\x02';
    EXPECT_EQ(reason_of(folder.write("a.webp", animated)), "damaged WebP");
    file[24] = file[27] = '\x1f';  // 19,999 and one
    file[25] = file[28] = '\x4e';
    EXPECT_NE(reason_of(folder.write("a.webp", file)), "it was read");  // frame and canvas differ
    std::string large = encode_webp(one, {9, 9, 9});  // 14 bits a side: a WebP has at most 16,384 x 16,384
    for (const std::size_t at : {21U, 22U, 23U}) large[at] = '\xff';
    large[24] = static_cast<char>(large[24] | 0x0f);
    EXPECT_THAT(reason_of(folder.write("a.webp", large)), HasSubstr("at most 100 megapixels"));
}

TEST(BadImage, RefusesHugeDimensionsByTheHeaderAlone) {
    const TempFolder folder;
    EXPECT_EQ(
        reason_of(folder.write("a.png", png_header({60'000, 60'000}))),
        "an image of 60000 x 60000 pixels; at most 100 megapixels are read (cut larger ones into tiles with --tile)");
    std::string jpeg = encode_jpeg(kSize, gradient(kSize));
    const std::size_t frame = jpeg.find("\xff\xc0");  // height and width stand 5 bytes into the frame's header
    for (const std::size_t at : {5U, 6U, 7U, 8U}) jpeg[frame + at] = static_cast<char>(0xee);
    EXPECT_EQ(
        reason_of(folder.write("a.jpg", jpeg)),
        "an image of 61166 x 61166 pixels; at most 100 megapixels are read (cut larger ones into tiles with --tile)");
    EXPECT_THAT(reason_of(folder.write("b.png", png_header({0, 5}))), StartsWith("damaged PNG"));
}

TEST(BadImage, RefusesTwentyThousandPixelsSquareByTheHeaderAlone) {
    const TempFolder folder;
    const char* const reason =
        "an image of 20000 x 20000 pixels; at most 100 megapixels are read (cut larger ones into tiles with --tile)";
    const std::string png = folder.write("a.png", png_header({20'000, 20'000}));
    std::string jpeg = encode_jpeg(kSize, gradient(kSize));
    const std::size_t frame = jpeg.find("\xff\xc0");
    for (const std::size_t at : {5U, 7U}) {
        jpeg[frame + at] = static_cast<char>(20'000 >> 8);
        jpeg[frame + at + 1] = static_cast<char>(20'000 & 0xff);
    }
    EXPECT_EQ(reason_of(png), reason);
    EXPECT_EQ(reason_of(folder.write("a.jpg", jpeg)), reason);
    Rgb pixels;
    EXPECT_EQ(reason_of_refusal([&] { ImageDecoder().decode_file_in_full(png, pixels); }), reason);
    EXPECT_TRUE(pixels.empty());
}

TEST(ImageDecode, ASinglePixelFillsThePicture) {
    const Rgb pixel{200, 100, 50};
    Rgb wanted;
    for (std::size_t i = 0; i < kSize.pixels(); ++i) wanted.insert(wanted.end(), pixel.begin(), pixel.end());
    EXPECT_EQ(decode(encode_png({1, 1}, pixel)), wanted);
    EXPECT_LE(largest_difference(decode(encode_jpeg({1, 1}, pixel)), wanted), 6);
    const TempFolder folder;
    Rgb found;
    EXPECT_EQ(ImageDecoder().decode_file_in_full(folder.write("a.png", encode_png({1, 1}, pixel)), found),
              (ImageSize{1, 1}));
    EXPECT_EQ(found, pixel);
}

TEST(BadImage, AFlippedByteIsReadOrRefused) {
    const std::string files[] = {encode_jpeg(kSize, gradient(kSize)),
                                 encode_jpeg(kSize, gradient(kSize), JpegColors::Color, JpegScans::Progressive),
                                 encode_png(kSize, gradient(kSize)), encode_webp(kSize, gradient(kSize))};
    rc::check([&] {
        std::string file = *rc::gen::elementOf(std::vector<std::string>(std::begin(files), std::end(files)));
        const int flips = *rc::gen::inRange(1, 5);
        for (int i = 0; i < flips; ++i)
            file[*rc::gen::inRange<std::size_t>(0, file.size())] = *rc::gen::arbitrary<char>();
        try {
            decode(file);
        } catch (const UnreadableItem& unreadable) {
            RC_ASSERT(std::string(unreadable.what()) != "");
        }
    });
}

}  // namespace
}  // namespace offramp
