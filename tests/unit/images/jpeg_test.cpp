#include "common/app/images/jpeg.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>

#include "common/app/images/image_decode.hpp"
#include "common/app/images/picture_parts.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "tests/unit/images/jpeg_files.hpp"
#include "tests/unit/images/picture_files.hpp"

namespace offramp {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Le;
using ::testing::StartsWith;

constexpr ImageSize kJpegSize{83, 61};
constexpr unsigned char kHuffman = 0xc4;

struct Jpeg : ::testing::Test {
    // Its size and a hash of its pixels, or the reason of a failure: the same whole and by rows.
    std::string read(const std::string& file) {
        const std::string path = folder.write("a.jpg", file);
        const std::string whole = outcome([&](Rgb& rgb) { return ImageDecoder().decode_file_in_full(path, rgb); });
        EXPECT_EQ(outcome([&](Rgb& rgb) {
                      const auto rows = open_picture_rows(path);
                      rgb.resize(rows->size().rgb_bytes());
                      for (std::uint32_t y = 0; y < rows->size().height; ++y)
                          rows->read(1, rgb.data() + std::size_t{y} * rows->size().width * 3);
                      return rows->size();
                  }),
                  whole);
        return whole;
    }

    template <class Read>
    static std::string outcome(const Read& read) {
        Rgb rgb;
        try {
            const ImageSize size = read(rgb);
            return std::to_string(size.width) + " x " + std::to_string(size.height) + ": " +
                   std::to_string(
                       std::hash<std::string_view>()({reinterpret_cast<const char*>(rgb.data()), rgb.size()}));
        } catch (const UnreadableItem& refused) {
            return refused.what();
        }
    }

    TempFolder folder;
};

TEST_F(Jpeg, ReportsAnUnreadableHeader) {
    const std::string good = encode_jpeg(kJpegSize, gradient(kJpegSize), JpegTables{});
    for (const auto& [name, file] : with_bad_headers(good))
        EXPECT_THAT(read(file), AnyOf(StartsWith("damaged JPEG: "), StartsWith("JPEG that cannot be read: "),
                                      StartsWith("JPEG with 2 colours per pixel")))
            << name;
    const auto bad = with_bad_headers(good);
    EXPECT_EQ(read(bad.at("two starts")), "damaged JPEG: Invalid JPEG file structure: two SOI markers");
    EXPECT_EQ(read(bad.at("lossless")), "JPEG that cannot be read: Unsupported JPEG process: SOF type 0xc3");
    EXPECT_EQ(read(bad.at("12 bits")), "JPEG that cannot be read: Unsupported JPEG data precision 12");
    EXPECT_EQ(read(bad.at("no quantisation tables")), "damaged JPEG: Quantization table 0x00 was not defined");
}

TEST_F(Jpeg, UsesTheStandardHuffmanTablesWithoutOwnOnes) {
    const std::string file = encode_jpeg(kJpegSize, gradient(kJpegSize), JpegTables{});
    EXPECT_EQ(read(without_segments(file, kHuffman)), read(file));
    const std::string own_codes = encode_jpeg(kJpegSize, gradient(kJpegSize), JpegTables{.own_codes = true});
    EXPECT_NE(read(without_segments(own_codes, kHuffman)), read(own_codes));
}

// The restart marker or bytes around it are lost: the picture is incomplete, whatever libjpeg warns of first.
TEST_F(Jpeg, ReportsBytesLostAtARestartMarker) {
    const std::string file = encode_jpeg(kJpegSize, noise(kJpegSize), JpegTables{.restart_blocks = 2});
    const std::size_t marker = file.find("\xff\xd3");
    ASSERT_NE(marker, std::string::npos);
    EXPECT_THAT(read(file), StartsWith("83 x 61: "));
    for (const std::size_t lost : {2U, 3U, 9U, 40U})
        for (const std::size_t before : {0U, 1U, 8U})
            EXPECT_THAT(read(std::string(file).erase(marker - before, lost + before)), StartsWith("damaged JPEG: "))
                << lost << " bytes, " << before << " of them in front";
}

// Many cameras pad: bytes between the pixels and the next marker do not affect the picture.
TEST_F(Jpeg, IgnoresExtraneousBytes) {
    const std::string file = encode_jpeg(kJpegSize, noise(kJpegSize), JpegTables{.restart_blocks = 2});
    for (const char* const marker : {"\xff\xd3", "\xff\xd9"})
        EXPECT_EQ(read(std::string(file).insert(file.rfind(marker), 5, '\0')), read(file));
}

TEST_F(Jpeg, DistinguishesTruncatedFromDamaged) {
    const std::string file = encode_jpeg(kJpegSize, noise(kJpegSize), JpegTables{});
    EXPECT_EQ(read(file.substr(0, file.size() - 2)),
              "truncated JPEG: its " + std::to_string(file.size() - 2) + " bytes end before the image does");
    EXPECT_EQ(read(std::string(file).insert(2, "\xff\xfe\xff\xff")),
              "damaged JPEG: a segment or a scan continues after the end marker");
}

// As PIL converts it, whatever the file states about its ink: 255 is no ink. In gray the colour transform has no
// effect.
TEST_F(Jpeg, ConvertsCmykToRgbAsPilDoes) {
    const ImageSize size{16, 16};
    const std::string ycck = encode_jpeg(size, Rgb(size.rgb_bytes(), 200), JpegColors::Cmyk);  // and no black
    Rgb pixels(size.rgb_bytes());
    ImageDecoder().decode(std::as_bytes(std::span(ycck)), size, std::as_writable_bytes(std::span(pixels)));
    EXPECT_THAT(pixels, Each(AllOf(Ge(199), Le(201))));
    const std::size_t adobe = segment_at(ycck, 0xee);
    std::string cmyk = ycck;
    cmyk.at(adobe + 15) = '\0';  // its planes are not YCC then
    EXPECT_THAT(read(cmyk), StartsWith("16 x 16: "));
    EXPECT_NE(read(cmyk), read(ycck));
    EXPECT_EQ(read(std::string(ycck).erase(adobe, 16)), read(cmyk)) << "without Adobe's segment it is CMYK";
}

TEST_F(Jpeg, RefusesMoreThanFiveHundredScans) {
    const std::string file = encode_jpeg({8, 8}, gradient({8, 8}), JpegColors::Gray, JpegScans::Progressive);
    const std::size_t scan = segment_at(file, 0xda), next = file.find("\xff\xc4", scan);
    std::string many = file.substr(0, next);
    for (int i = 0; i < 600; ++i) many += file.substr(scan, next - scan);
    EXPECT_THAT(read(many + file.substr(next)), HasSubstr("more than 500 scans"));
}

}  // namespace
}  // namespace offramp
