#include "common/app/images/tiff.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tiff.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "common/app/images/image_decode.hpp"
#include "common/app/images/picture_parts.hpp"
#include "common/app/images/tiff_handle.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "tests/unit/images/picture_files.hpp"
#include "tests/unit/images/tiff_files.hpp"

namespace offramp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr ImageSize kPageSize{83, 61};
constexpr ImageSize kPageTile{32, 16};

std::string reason_of_tiff(const std::string& path) {
    try {
        Rgb pixels;
        ImageDecoder().decode_file_in_full(path, pixels);
    } catch (const UnreadableItem& unreadable) {
        return unreadable.what();
    }
    return "it was read";
}

// Of libtiff's names.
std::vector<std::uint16_t> numbers(std::initializer_list<int> of) {
    std::vector<std::uint16_t> all;
    for (const int number : of) all.push_back(static_cast<std::uint16_t>(number));
    return all;
}

// The offset of that tag's entry in the first page of a little-endian file; the end of the entries if there is none.
std::size_t entry_of(const std::string& file, std::uint16_t tag) {
    std::uint32_t at = 0;
    std::uint16_t entries = 0;
    std::memcpy(&at, file.data() + 4, 4);
    std::memcpy(&entries, file.data() + at, 2);
    at += 2;
    for (std::uint16_t i = 0, found = 0; i < entries; ++i, at += 12) {
        std::memcpy(&found, file.data() + at, 2);
        if (found == tag) break;
    }
    return at;
}

// The value of a tag with one number.
std::uint32_t tag_of(const std::string& file, std::uint16_t tag) {
    std::uint32_t value = 0;
    const std::size_t at = entry_of(file, tag);
    std::memcpy(&value, file.data() + at + 8, file[at + 2] == 3 ? 2 : 4);
    return value;
}

std::string with_tag(std::string file, std::uint16_t tag, std::uint32_t value) {
    const std::size_t at = entry_of(file, tag);
    file[at + 2] = 4;
    std::memcpy(file.data() + at + 8, &value, 4);
    return file;
}

// The only strip or tile of the file, as stored; and the file with another one.
std::string piece_of(const std::string& file, bool in_tiles) {
    return file.substr(tag_of(file, in_tiles ? TIFFTAG_TILEOFFSETS : TIFFTAG_STRIPOFFSETS),
                       tag_of(file, in_tiles ? TIFFTAG_TILEBYTECOUNTS : TIFFTAG_STRIPBYTECOUNTS));
}

std::string with_piece(const std::string& file, bool in_tiles, const std::string& piece) {
    const std::string there =
        with_tag(file, in_tiles ? TIFFTAG_TILEOFFSETS : TIFFTAG_STRIPOFFSETS, static_cast<std::uint32_t>(file.size()));
    return with_tag(there, in_tiles ? TIFFTAG_TILEBYTECOUNTS : TIFFTAG_STRIPBYTECOUNTS,
                    static_cast<std::uint32_t>(piece.size())) +
           piece;
}

std::string reason_of_part(TiffPicture& picture, const PictureRect& part, Rgb& pixels) {
    pixels.assign(part.size.rgb_bytes(), 0);
    try {
        picture.read(part, pixels.data());
    } catch (const UnreadableItem& unreadable) {
        return unreadable.what();
    }
    return "it was read";
}

// A part of a picture of this width.
Rgb part_of(const Rgb& rgb, std::uint32_t width, const PictureRect& part) {
    Rgb found;
    for (std::uint32_t y = part.top; y < part.top + part.size.height; ++y) {
        const auto from = rgb.begin() + (std::ptrdiff_t{y} * width + part.left) * 3;
        found.insert(found.end(), from, from + std::ptrdiff_t{part.size.width} * 3);
    }
    return found;
}

struct TiffTest : ::testing::Test {
    // Whole, by rows, and in parts if it has tiles.
    void expect_pixels(const std::string& file, ImageSize size, const Rgb& wanted, const std::string& what) {
        const std::string path = folder.write("a.tif", file);
        Rgb found;
        ASSERT_EQ(ImageDecoder().decode_file_in_full(path, found), size) << what;
        EXPECT_EQ(found, wanted) << what;
        EXPECT_EQ(ImageDecoder().size_of_file(path), size) << what;
        const auto rows = open_picture_rows(path);
        ASSERT_EQ(rows->size(), size) << what;
        std::ranges::fill(found, std::uint8_t{0});
        for (std::uint32_t y = 0, some = 1; y < size.height; y += some, some = std::min(size.height - y, some + 3))
            rows->read(some, found.data() + std::size_t{y} * size.width * 3);
        EXPECT_EQ(found, wanted) << what << ", in rows";
        const auto later = open_picture_rows(path);
        later->pass_over(size.height / 2 + 1);
        Rgb last(std::size_t{size.width} * 3);
        later->read(1, last.data());
        EXPECT_EQ(last, part_of(wanted, size.width, {0, size.height / 2 + 1, {size.width, 1}})) << what;
        const auto regions = open_picture_regions(path);
        if (regions == nullptr) return;
        for (const PictureRect& part : {PictureRect{0, 0, {5, 5}}, PictureRect{31, 15, {2, 2}},
                                        PictureRect{size.width - 41, size.height - 33, {41, 33}}}) {
            Rgb cut(part.size.rgb_bytes());
            regions->read(part, cut.data());
            EXPECT_EQ(cut, part_of(wanted, size.width, part)) << what << ", a part from " << part.left;
        }
    }

    // In strips and in tiles, planar and interleaved.
    void expect_in_each_order(TiffPage page, const Rgb& wanted, const std::string& what) {
        for (const ImageSize tile : {ImageSize{0, 0}, kPageTile})
            for (const std::uint16_t planar : numbers({PLANARCONFIG_CONTIG, PLANARCONFIG_SEPARATE})) {
                page.tile = tile;
                page.planar = planar;
                const std::string order = (tile.width == 0 ? ", strips" : ", tiles") +
                                          std::string(planar == PLANARCONFIG_CONTIG ? "" : ", planes");
                expect_pixels(encode_tiff({page}), page.size, wanted, what + order);
            }
    }

    TempFolder folder;
};

TEST_F(TiffTest, ReadsEachCompressionLikeThePng) {
    const Rgb pixels = noise(kPageSize);
    Rgb of_png;
    ImageDecoder().decode_file_in_full(folder.write("a.png", encode_png(kPageSize, pixels)), of_png);
    TiffPage page = tiff_page(kPageSize, pixels);
    for (const std::uint16_t compression : numbers({COMPRESSION_NONE, COMPRESSION_LZW, COMPRESSION_ADOBE_DEFLATE,
                                                    COMPRESSION_DEFLATE, COMPRESSION_PACKBITS, COMPRESSION_ZSTD})) {
        page.compression = compression;
        page.predictor = 1;
        expect_in_each_order(page, of_png, "compression " + std::to_string(compression));
        if (compression != COMPRESSION_LZW && compression != COMPRESSION_ADOBE_DEFLATE) continue;
        page.predictor = 2;
        expect_in_each_order(page, of_png, "differences, compression " + std::to_string(compression));
    }
}

TEST_F(TiffTest, ReadsBigTiffBothByteOrdersAndAnyStrips) {
    const Rgb pixels = noise(kPageSize);
    TiffPage page = tiff_page(kPageSize, pixels);
    page.compression = COMPRESSION_LZW;
    for (const char* const mode : {"w8", "wb", "wl", "w8b"})
        for (const std::uint32_t rows : {1U, 10U, 61U, 1000U}) {
            page.strip_rows = rows;
            expect_pixels(encode_tiff({page}, mode), kPageSize, pixels, mode + std::to_string(rows));
        }
    const std::string file = encode_tiff({page});
    const std::string path = folder.write("many", "xxxx" + file + "yyyy");
    Rgb found;
    ImageDecoder().decode_file_in_full(PicturePlace(path, 4, file.size()), found);
    EXPECT_EQ(found, pixels) << "a part of a file";
}

TEST_F(TiffTest, Scales16Bits) {
    TiffPage page = tiff_page(kPageSize, {});
    Rgb wanted;
    for (std::size_t i = 0; i < kPageSize.pixels() * 3; ++i) {
        page.values.push_back(static_cast<std::uint16_t>(i * 40503));
        wanted.push_back(static_cast<std::uint8_t>((page.values.back() + 128) / 257));
    }
    page.bits = 16;
    expect_in_each_order(page, wanted, "16 bits");
    page.compression = COMPRESSION_ADOBE_DEFLATE;
    page.predictor = 2;
    expect_in_each_order(page, wanted, "16 bits, differences");
    expect_pixels(encode_tiff({page}, "wb"), kPageSize, wanted, "16 bits, the other order");
}

struct NumbersTest : TiffTest {
    static constexpr std::uint16_t kChannels = 5;

    // A page of `bits` and `format` whose sample i has the number `wanted[i]`.
    struct Page {
        TiffPage page;
        std::vector<float> wanted;
    };
    static Page page_of(std::uint16_t format, std::uint16_t bits) {
        Page made{.page = tiff_page(kPageSize, {}), .wanted = {}};
        made.page.samples = kChannels;
        made.page.photometric = PHOTOMETRIC_MINISBLACK;
        made.page.extra.assign(kChannels - 1, EXTRASAMPLE_UNSPECIFIED);
        made.page.bits = bits;
        made.page.format = format;
        for (std::size_t i = 0; i < kPageSize.pixels() * kChannels; ++i) {
            const auto value = static_cast<std::uint16_t>(i * 40503);
            const bool is_signed = format == SAMPLEFORMAT_INT;
            made.page.values.push_back(value);
            made.wanted.push_back(
                bits >= 32 ? static_cast<float>(value) / 8 - 100
                : bits == 8
                    ? static_cast<float>(is_signed ? static_cast<std::int8_t>(value) : static_cast<std::uint8_t>(value))
                    : static_cast<float>(is_signed ? static_cast<std::int16_t>(value) : value));
        }
        return made;
    }

    void expect_numbers(const std::string& file, const std::vector<float>& wanted, const std::string& what) {
        const std::string path = folder.write("n.tif", file);
        const PixelForm form{.channels = kChannels};
        const auto rows = open_picture_rows(path, form);
        ASSERT_EQ(rows->size(), kPageSize) << what;
        std::vector<float> found(wanted.size());
        for (std::uint32_t y = 0, some = 1; y < kPageSize.height;
             y += some, some = std::min(kPageSize.height - y, some + 3))
            rows->read(some, reinterpret_cast<std::uint8_t*>(found.data()) + y * kPageSize.width * form.pixel_bytes());
        EXPECT_EQ(found, wanted) << what << ", in rows";
        TiffPicture picture(picture_bytes(std::as_bytes(std::span(file))), kMaxImagePixels, TiffPart::Numbers);
        EXPECT_EQ(picture.channels(), kChannels);
        for (const PictureRect& part :
             {PictureRect{42, 28, {41, 33}}, PictureRect{31, 15, {2, 2}}, PictureRect{0, 0, {5, 5}}}) {
            std::vector<float> cut(part.size.pixels() * kChannels), same;
            picture.read(part, reinterpret_cast<std::uint8_t*>(cut.data()));
            for (std::uint32_t y = part.top; y < part.top + part.size.height; ++y) {
                const auto from = wanted.begin() + (std::ptrdiff_t{y} * kPageSize.width + part.left) * kChannels;
                same.insert(same.end(), from, from + std::ptrdiff_t{part.size.width} * kChannels);
            }
            EXPECT_EQ(cut, same) << what << ", a part from " << part.left;
        }
        EXPECT_EQ(ImageDecoder().size_of_file(path, TiffPart::Size), kPageSize) << what;
    }

    static std::string reason(const std::string& path, std::uint32_t channels = kChannels) {
        try {
            open_picture_rows(path, {.channels = channels});
        } catch (const UnreadableItem& unreadable) {
            return unreadable.what();
        }
        return "it was read";
    }
};

TEST_F(NumbersTest, ReadsEachTypeUnchanged) {
    struct Type {
        int format, bits;
    };
    for (const auto& [format, bits] :
         {Type{SAMPLEFORMAT_UINT, 8}, Type{SAMPLEFORMAT_INT, 8}, Type{SAMPLEFORMAT_UINT, 16},
          Type{SAMPLEFORMAT_INT, 16}, Type{SAMPLEFORMAT_IEEEFP, 32}, Type{SAMPLEFORMAT_IEEEFP, 64}}) {
        Page made = page_of(static_cast<std::uint16_t>(format), static_cast<std::uint16_t>(bits));
        for (const std::uint16_t compression : numbers({COMPRESSION_NONE, COMPRESSION_LZW, COMPRESSION_ADOBE_DEFLATE}))
            for (const ImageSize tile : {ImageSize{0, 0}, kPageTile})
                for (const std::uint16_t planar : numbers({PLANARCONFIG_CONTIG, PLANARCONFIG_SEPARATE}))
                    for (const char* const mode : {"w", "wb"}) {
                        made.page.compression = compression;
                        // libtiff writes differences of floats wrongly in the other byte order.
                        const bool plain = compression == COMPRESSION_NONE || (bits >= 32 && mode[1] == 'b');
                        made.page.predictor = plain ? 1 : bits >= 32 ? 3 : 2;
                        made.page.tile = tile;
                        made.page.planar = planar;
                        expect_numbers(encode_tiff({made.page}, mode), made.wanted,
                                       std::to_string(bits) + " bits, format " + std::to_string(format) +
                                           ", compression " + std::to_string(compression) +
                                           (tile.width == 0 ? ", strips, " : ", tiles, ") +
                                           (planar == PLANARCONFIG_CONTIG ? "" : "planes, ") + mode);
                    }
    }
}

TEST_F(NumbersTest, RefusesOtherFilesByName) {
    const Page made = page_of(SAMPLEFORMAT_UINT, 16);
    const std::string good = folder.write("good.tif", encode_tiff({made.page}));
    EXPECT_EQ(reason(good), "it was read");
    EXPECT_EQ(reason(good, 13),
              "TIFF with 5 bands, and the model takes 13. Leave it out, or write its bands into a file of that many "
              "(gdal_translate -b)");
    EXPECT_THAT(reason_of_tiff(good), HasSubstr("5 channels of gray")) << "as a picture";
    EXPECT_THAT(reason(folder.write("a.png", encode_png({4, 4}, noise({4, 4})))), HasSubstr("reads TIFF files only"));
    TiffPage turned = made.page;
    turned.orientation = 6;
    EXPECT_THAT(reason(folder.write("t.tif", encode_tiff({turned}))), HasSubstr("rotated or mirrored"));
    EXPECT_EQ(ImageDecoder().size_of_file(folder / "t.tif", TiffPart::Size), (ImageSize{61, 83}));
    for (const auto& [format, bits, words] :
         {std::tuple{SAMPLEFORMAT_UINT, 32U, "whole numbers of 32 bits"},
          std::tuple{SAMPLEFORMAT_INT, 32U, "signed numbers of 32 bits"},
          std::tuple{SAMPLEFORMAT_IEEEFP, 16U, "floating-point numbers of 16 bits"},
          std::tuple{SAMPLEFORMAT_COMPLEXIEEEFP, 64U, "complex numbers of 64 bits"}}) {
        TiffPage page = made.page;
        page.bits = static_cast<std::uint16_t>(bits);
        page.format = static_cast<std::uint16_t>(format);
        EXPECT_THAT(reason(folder.write("b.tif", encode_tiff({page}))),
                    AllOf(HasSubstr(words), HasSubstr("gdal_translate")));
    }
    const std::string file = encode_tiff({made.page});
    EXPECT_THAT(reason(folder.write("w.tif", with_tag(file, TIFFTAG_IMAGEWIDTH, 60'000'000))),
                HasSubstr("rows of more than 256 MiB"));
}

TEST_F(TiffTest, ReadsGrayOfEachDepth) {
    for (const std::uint16_t bits : numbers({1, 2, 4, 8, 16})) {
        const std::uint32_t largest = (1U << bits) - 1;
        TiffPage page = tiff_page(kPageSize, {});
        Rgb wanted, inverted;
        for (std::size_t i = 0; i < kPageSize.pixels(); ++i) {
            const auto value = static_cast<std::uint32_t>(i * 40503 / 7) & largest;
            page.values.push_back(static_cast<std::uint16_t>(value));
            const auto gray = static_cast<std::uint8_t>((value * 255 + largest / 2) / largest);
            for (int c = 0; c < 3; ++c)
                wanted.push_back(gray), inverted.push_back(static_cast<std::uint8_t>(255 - gray));
        }
        page.samples = 1;
        page.bits = bits;
        page.compression = COMPRESSION_LZW;
        page.photometric = PHOTOMETRIC_MINISBLACK;
        expect_in_each_order(page, wanted, std::to_string(bits) + " bits");
        page.photometric = PHOTOMETRIC_MINISWHITE;
        expect_in_each_order(page, inverted, std::to_string(bits) + " bits, inverted");
        if (bits != 1) continue;
        page.compression = COMPRESSION_CCITTFAX4;
        expect_in_each_order(page, inverted, "fax");
    }
}

TEST_F(TiffTest, ReadsPalettesOf16BitsAndOf8) {
    for (const std::uint16_t bits : numbers({1, 4, 8}))
        for (const unsigned times : {1U, 256U, 257U}) {
            const std::size_t colours = std::size_t{1} << bits;
            TiffPage page = tiff_page(kPageSize, {});
            Rgb wanted;
            for (std::size_t i = 0; i < 3 * colours; ++i)
                page.palette.push_back(static_cast<std::uint16_t>((i * 83 + 200) % 256 * times));
            for (std::size_t i = 0; i < kPageSize.pixels(); ++i) {
                const std::size_t colour = i * 31 % colours;
                page.values.push_back(static_cast<std::uint16_t>(colour));
                for (std::size_t c = 0; c < 3; ++c)
                    wanted.push_back(static_cast<std::uint8_t>(page.palette[c * colours + colour] / times));
            }
            page.samples = 1;
            page.bits = bits;
            page.photometric = PHOTOMETRIC_PALETTE;
            page.compression = COMPRESSION_PACKBITS;
            expect_in_each_order(page, wanted, std::to_string(bits) + " bits, times " + std::to_string(times));
        }
}

// Alpha is dropped, as PNG's is; premultiplied colours are restored.
TEST_F(TiffTest, DropsAlphaAndOtherChannels) {
    const Rgb pixels = noise(kPageSize);
    for (const std::uint16_t kind :
         numbers({EXTRASAMPLE_UNASSALPHA, EXTRASAMPLE_UNSPECIFIED, EXTRASAMPLE_ASSOCALPHA})) {
        TiffPage page = tiff_page(kPageSize, {});
        page.samples = 5;
        page.extra = {kind, EXTRASAMPLE_UNSPECIFIED};
        Rgb wanted;
        for (std::size_t i = 0; i < kPageSize.pixels(); ++i) {
            const std::uint16_t alpha = i % 3 == 0 ? 0 : i % 3 == 1 ? 255 : 100;
            for (std::size_t c = 0; c < 3; ++c) {
                const unsigned value = pixels[3 * i + c];
                if (kind != EXTRASAMPLE_ASSOCALPHA) {
                    page.values.push_back(static_cast<std::uint16_t>(value));
                    wanted.push_back(static_cast<std::uint8_t>(value));
                } else {
                    const unsigned multiplied = value * alpha / 255;
                    page.values.push_back(static_cast<std::uint16_t>(multiplied));
                    wanted.push_back(static_cast<std::uint8_t>(alpha == 0 ? 0 : multiplied * 255 / alpha));
                }
            }
            page.values.push_back(alpha);
            page.values.push_back(7);
        }
        expect_in_each_order(page, wanted, "kind " + std::to_string(kind));
    }
    TiffPage gray = tiff_page({3, 1}, {});
    gray.samples = 2;
    gray.photometric = PHOTOMETRIC_MINISBLACK;
    gray.extra = {EXTRASAMPLE_UNASSALPHA};
    gray.values = {1, 0, 200, 50, 9, 255};
    Rgb found;
    ImageDecoder().decode_file_in_full(folder.write("g.tif", encode_tiff({gray})), found);
    EXPECT_EQ(found, (Rgb{1, 1, 1, 200, 200, 200, 9, 9, 9}));
}

// A colour is the light, of 255, that its ink and black leave.
TEST_F(TiffTest, ConvertsCmykAlsoWithExtraChannels) {
    for (const std::uint16_t bits : numbers({8, 16}))
        for (const std::uint16_t samples : numbers({4, 5, 6})) {
            TiffPage page = tiff_page(kPageSize, {});
            page.photometric = PHOTOMETRIC_SEPARATED;
            page.samples = samples;
            page.bits = bits;
            page.extra.assign(samples - 4U, EXTRASAMPLE_ASSOCALPHA);
            Rgb wanted;
            const Rgb inks = noise({kPageSize.width * samples, kPageSize.height});
            for (std::size_t pixel = 0; pixel < kPageSize.pixels(); ++pixel) {
                const std::uint8_t* const of = inks.data() + pixel * samples;
                for (std::size_t c = 0; c < samples; ++c)
                    page.values.push_back(static_cast<std::uint16_t>(bits == 8 ? of[c] : of[c] * 257));
                const int light = 255 - of[3];
                for (std::size_t c = 0; c < 3; ++c)
                    wanted.push_back(static_cast<std::uint8_t>(light - (of[c] * light * 2 + 255) / 510));
            }
            expect_in_each_order(page, wanted, std::to_string(samples) + " of " + std::to_string(bits) + " bits");
        }
}

TEST_F(TiffTest, DividesPremultipliedAlphaOut) {
    TiffPage page = tiff_page(kPageSize, {});
    page.samples = 6;
    page.extra = numbers({EXTRASAMPLE_UNSPECIFIED, EXTRASAMPLE_UNSPECIFIED, EXTRASAMPLE_ASSOCALPHA});
    Rgb wanted;
    for (std::size_t i = 0; i < kPageSize.pixels(); ++i) {
        for (std::size_t c = 0; c < 3; ++c) {
            page.values.push_back(static_cast<std::uint16_t>((i + c) % 51));
            wanted.push_back(static_cast<std::uint8_t>((i + c) % 51 * 5));
        }
        for (const int other : {7, 9, 51}) page.values.push_back(static_cast<std::uint16_t>(other));
    }
    expect_in_each_order(page, wanted, "alpha is the sixth");
}

TEST_F(TiffTest, ReadsLongLines) {
    constexpr ImageSize kLong{2500, 40};
    for (const std::uint16_t bits : numbers({1, 16})) {
        TiffPage page = tiff_page(kLong, {});
        Rgb wanted;
        const unsigned largest = (1U << bits) - 1;
        for (std::size_t i = 0; i < kLong.pixels() * 3; ++i) {
            page.values.push_back(static_cast<std::uint16_t>((i * 40503 >> 3U) & largest));
            wanted.push_back(static_cast<std::uint8_t>((page.values.back() * 255U + largest / 2) / largest));
        }
        page.bits = bits;
        expect_in_each_order(page, wanted, std::to_string(bits) + " bits, long lines");
    }
}

TEST_F(TiffTest, HoldsFewerRowsThanATileHas) {
    const Rgb pixels = noise(kPageSize);
    TiffPage page = tiff_page(kPageSize, pixels);
    page.tile = kPageTile;
    const std::string file = encode_tiff({page});
    for (const std::uint64_t held : {std::uint64_t{0}, std::uint64_t{83 * 3 * 5}}) {
        const auto rows = rows_of_tiff(TiffPicture(picture_bytes(std::as_bytes(std::span(file)))), held);
        Rgb found(pixels.size());
        rows->read(2, found.data());
        rows->read(59, found.data() + std::ptrdiff_t{2} * 83 * 3);
        EXPECT_EQ(found, pixels) << held;
    }
}

TEST_F(TiffTest, ReadsJpegTilesNearlyExactly) {
    const Rgb pixels = gradient(kPageSize);
    for (const std::uint16_t photometric : numbers({PHOTOMETRIC_YCBCR, PHOTOMETRIC_RGB}))
        for (const ImageSize tile : {ImageSize{0, 0}, kPageTile}) {
            TiffPage page = tiff_page(kPageSize, pixels);
            page.compression = COMPRESSION_JPEG;
            page.photometric = photometric;
            page.tile = tile;
            page.strip_rows = 16;
            const std::string path = folder.write("j.tif", encode_tiff({page}));
            Rgb found;
            ASSERT_EQ(ImageDecoder().decode_file_in_full(path, found), kPageSize);
            int largest = 0;
            for (std::size_t i = 0; i < found.size(); ++i) largest = std::max(largest, std::abs(found[i] - pixels[i]));
            EXPECT_LT(largest, 24) << photometric;
            expect_pixels(encode_tiff({page}), kPageSize, found, "JPEG");
        }
}

TEST_F(TiffTest, TurnsEachOrientationAsExif) {
    const Rgb pixels = noise(kPageSize);
    for (std::uint16_t value = 1; value <= 8; ++value)
        for (const ImageSize tile : {ImageSize{0, 0}, kPageTile}) {
            TiffPage page = tiff_page(kPageSize, pixels);
            page.orientation = value;
            page.tile = tile;
            const auto orientation = static_cast<Orientation>(value);
            Rgb wanted(pixels.size());
            bring_upright(pixels.data(), kPageSize, orientation, wanted.data());
            expect_pixels(encode_tiff({page}), upright_size(kPageSize, orientation), wanted,
                          "orientation " + std::to_string(value));
        }
}

TEST_F(TiffTest, ReadsTheFirstPageInFullResolution) {
    TiffPage small = tiff_page({4, 3}, noise({4, 3}));
    small.subfile = FILETYPE_REDUCEDIMAGE;
    const Rgb pixels = noise(kPageSize);
    TiffPage page = tiff_page(kPageSize, pixels);
    page.planar = PLANARCONFIG_SEPARATE;
    TiffPage other = tiff_page(kPageSize, gradient(kPageSize));
    other.subfile = FILETYPE_PAGE;
    expect_pixels(encode_tiff({page, other}), kPageSize, pixels, "two pages");
    expect_pixels(encode_tiff({small, small, page, other}), kPageSize, pixels, "behind thumbnails");
    page.tile = kPageTile;
    expect_pixels(encode_tiff({page, small}), kPageSize, pixels, "a pyramid");
    Rgb found;
    EXPECT_EQ(ImageDecoder().decode_file_in_full(folder.write("s.tif", encode_tiff({small, small})), found),
              (ImageSize{4, 3}));
}

TEST_F(TiffTest, RefusesUnsupportedKindsWithTheRemedy) {
    const auto refused = [&](auto change) {
        TiffPage page = tiff_page({4, 3}, {});
        page.values.assign(std::size_t{4} * 3 * 4 * 4, 1);
        change(page);
        return reason_of_tiff(folder.write("r.tif", encode_tiff({page})));
    };
    const auto contains = [](const char* what) { return AllOf(HasSubstr(what), HasSubstr("Convert it")); };
    EXPECT_THAT(refused([](TiffPage& page) { page.photometric = PHOTOMETRIC_YCBCR; }),
                contains("YCbCr colours without JPEG compression"));
    EXPECT_THAT(refused([](TiffPage& page) {
                    page.photometric = PHOTOMETRIC_SEPARATED, page.samples = 4, page.ink_set = INKSET_MULTIINK;
                }),
                contains("TIFF with inks other than CMYK; only gray, palettes, RGB, CMYK"));
    EXPECT_THAT(refused([](TiffPage& page) { page.photometric = PHOTOMETRIC_SEPARATED; }),
                contains("3 channels of CMYK"));
    EXPECT_THAT(refused([](TiffPage& page) { page.photometric = PHOTOMETRIC_CIELAB; }), contains("L*a*b* colours"));
    EXPECT_THAT(refused([](TiffPage& page) { page.format = SAMPLEFORMAT_INT; }), contains("signed numbers of 8 bits"));
    EXPECT_THAT(refused([](TiffPage& page) { page.photometric = PHOTOMETRIC_MINISBLACK; }),
                contains("3 channels of gray"));
    EXPECT_THAT(refused([](TiffPage& page) { page.compression = COMPRESSION_LZMA; }), contains("compression by LZMA"));
    for (const std::uint16_t fax : numbers({COMPRESSION_CCITTRLE, COMPRESSION_CCITTFAX3}))
        EXPECT_THAT(refused([fax](TiffPage& page) {
                        page.compression = fax, page.photometric = PHOTOMETRIC_MINISWHITE;
                        page.samples = 1, page.bits = 1;
                    }),
                    contains("compression by CCITT Group 3"));
    TiffPage planes = tiff_page({16, 16}, noise({16, 16}));
    planes.compression = COMPRESSION_JPEG;
    planes.planar = PLANARCONFIG_SEPARATE;
    planes.strip_rows = 16;
    const std::string ycbcr = with_tag(encode_tiff({planes}), TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_YCBCR);
    EXPECT_THAT(reason_of_tiff(folder.write("r.tif", ycbcr)), contains("JPEG's YCbCr colours in separate planes"));
}

TEST_F(TiffTest, ReportsTheProblemOfABrokenFile) {
    TiffPage page = tiff_page(kPageSize, noise(kPageSize));
    page.compression = COMPRESSION_ADOBE_DEFLATE;
    const std::string file = encode_tiff({page});
    EXPECT_THAT(reason_of_tiff(folder.write("t.tif", file.substr(0, file.size() / 2))), HasSubstr("TIFF"));
    EXPECT_THAT(reason_of_tiff(folder.write("t.tif", file.substr(0, 20))),
                HasSubstr("truncated TIFF: its 20 bytes end before the image does"));
    EXPECT_THAT(reason_of_tiff(folder.write("t.tif", std::string("II*\0............", 16))), HasSubstr("TIFF"));
    std::string damaged = file;
    for (std::size_t at = 400; at < 440; ++at) damaged[at] = static_cast<char>(damaged[at] ^ 0x5a);
    EXPECT_THAT(reason_of_tiff(folder.write("d.tif", damaged)), HasSubstr("damaged TIFF: "));
    for (std::size_t bytes = 8; bytes < file.size(); bytes += 97)
        EXPECT_NE(reason_of_tiff(folder.write("t.tif", file.substr(0, bytes))), "it was read") << bytes;
}

// A thumbnail counts as the picture only where there is no other page.
TEST_F(TiffTest, ReportsABrokenChainOfPagesAsDamage) {
    TiffPage small = tiff_page({4, 3}, noise({4, 3}));
    small.subfile = FILETYPE_REDUCEDIMAGE;
    const TiffPage page = tiff_page(kPageSize, noise(kPageSize));
    const std::string file = encode_tiff({small, page});
    const std::size_t link = entry_of(file, 0);
    std::uint32_t own = 0, next = 0;
    std::memcpy(&own, file.data() + 4, 4);
    std::memcpy(&next, file.data() + link, 4);
    const auto linked_to = [&](std::uint32_t place) {
        std::string changed = file;
        std::memcpy(changed.data() + link, &place, 4);
        return reason_of_tiff(folder.write("c.tif", changed));
    };
    EXPECT_EQ(linked_to(next), "it was read");
    EXPECT_EQ(linked_to(0), "it was read") << "the thumbnail";
    EXPECT_THAT(linked_to(static_cast<std::uint32_t>(file.size()) + 100), HasSubstr("TIFF: "));
    EXPECT_THAT(linked_to(own), HasSubstr("damaged TIFF: "));
    EXPECT_THAT(reason_of_tiff(folder.write("c.tif", file.substr(0, next + 20))), HasSubstr("truncated TIFF: "));
    EXPECT_THAT(reason_of_tiff(folder.write("c.tif", encode_tiff(std::vector<TiffPage>(65, small)))),
                HasSubstr("first 64 pages are thumbnails or masks"));
}

TEST_F(TiffTest, ReportsACutJpegTileAsDamageEvenAfterAWarning) {
    TiffPage page = tiff_page({64, 64}, noise({64, 64}));
    page.compression = COMPRESSION_JPEG;
    page.tile = {64, 64};
    const std::string file = encode_tiff({page});
    std::string tile = piece_of(file, true);
    EXPECT_EQ(reason_of_tiff(folder.write("j.tif", with_piece(file, true, tile))), "it was read");
    const std::size_t scan = tile.find("\xff\xda");
    ASSERT_NE(scan, std::string::npos);
    const std::string cut = tile.substr(0, (scan + tile.size()) / 2);
    EXPECT_THAT(reason_of_tiff(folder.write("j.tif", with_piece(file, true, cut))), HasSubstr("damaged TIFF: "));
    tile = cut;
    tile.insert(scan, "xy");
    EXPECT_THAT(reason_of_tiff(folder.write("j.tif", with_piece(file, true, tile))), HasSubstr("damaged TIFF: "));
}

// No pixel depends on the end of a fax.
TEST_F(TiffTest, ReportsACutStripAsDamage) {
    TiffPage page = tiff_page({61, 20}, {});
    page.samples = 1;
    page.bits = 1;
    page.photometric = PHOTOMETRIC_MINISBLACK;
    page.strip_rows = 20;
    for (const unsigned pattern : {3U, 7U, 500U, 4000U})
        for (const std::uint16_t compression : numbers({COMPRESSION_PACKBITS, COMPRESSION_CCITTFAX4})) {
            page.values.clear();
            for (std::size_t i = 0; i < page.size.pixels(); ++i)
                page.values.push_back(static_cast<std::uint16_t>((i * 40503 / pattern) & 1U));
            page.compression = compression;
            const std::string file = encode_tiff({page});
            const std::string strip = piece_of(file, false);
            Rgb whole, found;
            for (std::size_t bytes = strip.size(); bytes > 0; --bytes) {
                const std::string cut = with_piece(file, false, strip.substr(0, bytes));
                TiffPicture picture(picture_bytes(std::as_bytes(std::span(cut))));
                const std::string reason = reason_of_part(picture, {0, 0, page.size}, found);
                if (bytes == strip.size()) whole = found;
                const std::size_t no_pixels = compression == COMPRESSION_PACKBITS ? 0 : 4;
                if (bytes + no_pixels < strip.size()) {
                    EXPECT_THAT(reason, HasSubstr("damaged TIFF: ")) << compression << ", " << bytes;
                } else if (reason == "it was read") {
                    EXPECT_EQ(found, whole) << compression << ", " << bytes << " of " << strip.size();
                }
            }
            EXPECT_EQ(whole.size(), page.size.rgb_bytes()) << compression;
        }
}

TEST_F(TiffTest, ReadsTheOtherPartsAfterADamagedOne) {
    const Rgb pixels = noise(kPageSize);
    for (const ImageSize tile : {ImageSize{0, 0}, ImageSize{96, 16}})
        for (const std::uint16_t planar : numbers({PLANARCONFIG_CONTIG, PLANARCONFIG_SEPARATE})) {
            TiffPage page = tiff_page(kPageSize, pixels);
            page.compression = COMPRESSION_ADOBE_DEFLATE;
            page.tile = tile;
            page.planar = planar;
            page.strip_rows = 16;
            std::string file = encode_tiff({page});
            std::uint32_t offsets = 0, second = 0;
            std::memcpy(&offsets,
                        file.data() + entry_of(file, tile.width == 0 ? TIFFTAG_STRIPOFFSETS : TIFFTAG_TILEOFFSETS) + 8,
                        4);
            std::memcpy(&second, file.data() + offsets + 4, 4);
            file[second + 30] = static_cast<char>(file[second + 30] ^ 0x5a);
            TiffPicture picture(picture_bytes(std::as_bytes(std::span(file))));
            const PictureRect first{0, 0, {83, 16}}, damaged{0, 16, {83, 16}}, last{0, 40, {83, 21}};
            Rgb found;
            for (int i = 0; i < 2; ++i) {
                EXPECT_THAT(reason_of_part(picture, damaged, found), HasSubstr("damaged TIFF: "));
                EXPECT_EQ(reason_of_part(picture, first, found), "it was read");
                EXPECT_EQ(found, part_of(pixels, 83, first));
                EXPECT_THAT(reason_of_part(picture, damaged, found), HasSubstr("damaged TIFF: "));
                EXPECT_EQ(reason_of_part(picture, last, found), "it was read");
                EXPECT_EQ(found, part_of(pixels, 83, last));
            }
        }
}

TEST_F(TiffTest, ReadsHeldTilesDespiteADiskError) {
    const Rgb pixels = noise(kPageSize);
    TiffPage page = tiff_page(kPageSize, pixels);
    page.tile = kPageTile;
    const std::string file = encode_tiff({page});
    const PictureBytes whole = picture_bytes(std::as_bytes(std::span(file)));
    int calls = 0;
    bool fails = false;
    TiffPicture picture({.read_at =
                             [&](std::uint64_t offset, std::span<std::byte> to) {
                                 ++calls;
                                 if (fails) throw std::runtime_error("the disk is gone");
                                 return whole.read_at(offset, to);
                             },
                         .size = whole.size});
    const PictureRect one{1, 1, {7, 7}}, same{9, 3, {20, 9}}, other{33, 1, {7, 7}};
    Rgb found;
    EXPECT_EQ(reason_of_part(picture, one, found), "it was read");
    const int before = calls;
    EXPECT_EQ(reason_of_part(picture, same, found), "it was read");
    EXPECT_EQ(found, part_of(pixels, 83, same));
    EXPECT_EQ(calls, before);
    fails = true;
    EXPECT_EQ(reason_of_part(picture, other, found), "the disk is gone");
    EXPECT_EQ(reason_of_part(picture, one, found), "the disk is gone") << "the held tile was overwritten";
    fails = false;
    for (const PictureRect& part : {other, one}) {
        EXPECT_EQ(reason_of_part(picture, part, found), "it was read");
        EXPECT_EQ(found, part_of(pixels, 83, part));
    }
}

// A short header that claims huge sizes.
TEST_F(TiffTest, RefusesHugeSizesBeforeAllocating) {
    TiffPage page = tiff_page({64, 64}, noise({64, 64}));
    page.compression = COMPRESSION_LZW;
    page.tile = {64, 64};
    std::string file = encode_tiff({page});
    const auto with = [&](std::uint16_t tag, std::uint32_t value) {
        std::string changed = file;
        const std::string entry{static_cast<char>(tag & 255), static_cast<char>(tag >> 8)};
        for (std::size_t at = changed.find(entry, 8); at != std::string::npos; at = changed.find(entry, at + 1)) {
            if (changed[at + 2] != 3 && changed[at + 2] != 4) continue;
            changed[at + 2] = 4;
            for (unsigned byte = 0; byte < 4; ++byte) changed[at + 8 + byte] = static_cast<char>(value >> (8 * byte));
        }
        return changed;
    };
    file = with(TIFFTAG_IMAGEWIDTH, 60'000);
    file = with(TIFFTAG_IMAGELENGTH, 60'000);
    EXPECT_THAT(reason_of_tiff(folder.write("b.tif", file)), AllOf(HasSubstr("60000 x 60000"), HasSubstr("--tile")));
    const auto reason_of_rows_of = [&](const std::string& bytes) {
        try {
            open_picture_regions(folder.write("b.tif", bytes));
        } catch (const UnreadableItem& unreadable) {
            return std::string(unreadable.what());
        }
        return std::string("it was opened");
    };
    EXPECT_EQ(reason_of_rows_of(file), "it was opened") << "with --tile";
    file = with(TIFFTAG_TILEWIDTH, 49'152);
    EXPECT_THAT(reason_of_rows_of(with(TIFFTAG_TILELENGTH, 49'152)), HasSubstr("tiles of more than 256 MiB"));
    page.planar = PLANARCONFIG_SEPARATE;
    file = with_tag(encode_tiff({page}), TIFFTAG_TILEWIDTH, 9'472);
    EXPECT_EQ(reason_of_rows_of(with_tag(file, TIFFTAG_TILELENGTH, 9'440)), "it was opened") << "of 256 MiB";
    EXPECT_THAT(reason_of_rows_of(with_tag(file, TIFFTAG_TILELENGTH, 9'472)), HasSubstr("tiles of more than 256 MiB"))
        << "in all planes";
    page.planar = PLANARCONFIG_CONTIG;
    page.tile = {0, 0};
    page.strip_rows = 64;
    file = encode_tiff({page});
    file = with(TIFFTAG_ROWSPERSTRIP, 100'000);
    file = with(TIFFTAG_IMAGELENGTH, 80'000);
    EXPECT_THAT(reason_of_rows_of(with(TIFFTAG_IMAGEWIDTH, 60'000)), HasSubstr("at most 4000 megapixels"));
    EXPECT_EQ(reason_of_rows_of(with(TIFFTAG_IMAGEWIDTH, 40'000)), "it was opened");
}

TEST(LibtiffTest, ReportsAMissingOrOldLibraryWithTheRemedy) {
    const auto reason = [](const char* name) {
        try {
            open_libtiff(name);
        } catch (const UnreadableItem& unreadable) {
            return std::string(unreadable.what());
        }
        return std::string("it was opened");
    };
    EXPECT_EQ(reason("libtiff.so.6"), "it was opened");
    EXPECT_THAT(reason("libtiff-none.so.6"),
                AllOf(HasSubstr("needs libtiff 4.5 or later"), HasSubstr("libtiff-none.so.6: cannot open"),
                      HasSubstr("apt-get install libtiff6")));
    EXPECT_THAT(reason("libm.so.6"),
                AllOf(HasSubstr("libm.so.6 has no function TIFF"), HasSubstr("apt-get install libtiff6")));
}

// Each handle has its own errors.
TEST_F(TiffTest, ReadsAndFailsIndependentlyOnSeveralThreads) {
    TiffPage page = tiff_page(kPageSize, noise(kPageSize));
    page.compression = COMPRESSION_LZW;
    const std::string file = encode_tiff({page});
    const std::string good = folder.write("good.tif", file), bad = folder.write("bad.tif", file.substr(0, 20));
    std::vector<std::thread> threads;
    std::vector<int> wrong(4);
    for (int& count : wrong)
        threads.emplace_back([&] {
            for (int i = 0; i < 50; ++i) {
                count += reason_of_tiff(good) != "it was read" ? 1 : 0;
                count += reason_of_tiff(bad).starts_with("truncated TIFF") ? 0 : 1;
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_THAT(wrong, ::testing::Each(0));
}

}  // namespace
}  // namespace offramp
