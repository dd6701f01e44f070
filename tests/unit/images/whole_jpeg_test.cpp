#include "common/app/images/whole_jpeg.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "common/app/images/jpeg.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "tests/unit/images/jpeg_files.hpp"
#include "tests/unit/images/picture_files.hpp"

namespace offramp {
namespace {

constexpr ImageSize kSize{83, 61};

std::span<const std::byte> bytes_of(const std::string& file) { return std::as_bytes(std::span(file)); }

std::vector<JpegTables> plain_kinds() {
    return {{},
            {.own_codes = true},
            {.quality = 100, .own_codes = true},
            {.quality = 30, .restart_blocks = 1},
            {.own_codes = true, .restart_blocks = 3},
            {.across = 2, .down = 1},
            {.across = 1, .down = 1},
            {.gray = true},
            {.restart_blocks = 7, .gray = true}};
}

// The file with other identifiers of its three components, in its frame and its scan.
std::string changed_ids(std::string file, const std::string& ids) {
    const std::size_t frame = segment_at(file, 0xc0), scan = segment_at(file, 0xda);
    for (std::size_t i = 0; i < 3; ++i) {
        file[frame + 10 + 3 * i] = ids[i];
        file[scan + 5 + 2 * i] = ids[i];
    }
    return file;
}

bool decodes(const std::string& file) {
    try {
        JpegPicture picture(bytes_of(file));
        Rgb rgb(picture.size().rgb_bytes());
        picture.read(picture.size().height, rgb.data());
        return true;
    } catch (const UnreadableItem&) {
        return false;
    }
}

TEST(WholeJpeg, AcceptsWholeFilesOfThePlainKinds) {
    WholeJpegCheck check;
    for (const JpegTables& tables : plain_kinds())
        for (const ImageSize size : {ImageSize{1, 1}, ImageSize{8, 8}, ImageSize{17, 64}, kSize})
            for (const Rgb& pixels : {gradient(size), noise(size)}) {
                const std::string file = encode_jpeg(size, pixels, tables);
                const auto found = check(bytes_of(file + "what a camera adds behind the picture\xff\xd9"));
                ASSERT_TRUE(found.has_value()) << size.width << " x " << size.height << " at " << tables.quality;
                EXPECT_EQ(found->size, size);
                EXPECT_EQ(found->bytes_to_end, file.size());
            }
}

TEST(WholeJpeg, LeavesOtherKindsToTheDecoder) {
    WholeJpegCheck check;
    const std::string plain = encode_jpeg(kSize, gradient(kSize), JpegTables{});
    EXPECT_FALSE(check(bytes_of(encode_jpeg(kSize, gradient(kSize), JpegTables{.across = 1, .down = 2}))));
    EXPECT_FALSE(check(bytes_of(encode_jpeg(kSize, gradient(kSize), JpegTables{.across = 4, .down = 1}))));
    EXPECT_FALSE(check(bytes_of(encode_jpeg(kSize, gradient(kSize), JpegColors::Cmyk))));
    EXPECT_FALSE(check(bytes_of(without_segments(plain, 0xc4)))) << "a frame of a webcam has the standard tables";
    const std::string rgb_ids = changed_ids(plain, "RGB");
    EXPECT_FALSE(check(bytes_of(rgb_ids))) << "decoders disagree about these colours";
    EXPECT_TRUE(check(bytes_of(changed_ids(plain, std::string("\0\1\2", 3)))));
    EXPECT_FALSE(WholeJpegCheck({.shortest_side = 62})(bytes_of(plain)));
    EXPECT_FALSE(WholeJpegCheck({.longest_side = 82})(bytes_of(plain)));
    EXPECT_FALSE(WholeJpegCheck({.pixels = 83 * 61 - 1})(bytes_of(plain)));
    EXPECT_TRUE(WholeJpegCheck({.shortest_side = 61, .longest_side = 83, .pixels = 83 * 61})(bytes_of(plain)));
    EXPECT_FALSE(check(bytes_of(encode_png(kSize, gradient(kSize)))));
    EXPECT_FALSE(check({}));
    for (const auto& [name, file] : with_bad_headers(plain)) EXPECT_FALSE(check(bytes_of(file))) << name;
    EXPECT_TRUE(check(bytes_of(plain))) << "after all of these";
}

TEST(WholeJpeg, AcceptsNoFileThatIsCut) {
    WholeJpegCheck check;
    for (const JpegTables& tables : plain_kinds()) {
        const std::string file = encode_jpeg(kSize, noise(kSize), tables);
        for (std::size_t bytes = 0; bytes < file.size(); ++bytes) {
            ASSERT_FALSE(check(bytes_of(file).first(bytes))) << bytes << " of " << file.size();
            // With an end marker, as of a camera whose card was full.
            if (bytes > 700 && bytes + 2 < file.size()) {
                ASSERT_FALSE(check(bytes_of(file.substr(0, bytes) + "\xff\xd9"))) << bytes << " of " << file.size();
            }
        }
    }
}

// Whatever is accepted, the decoder of the CPU reads without a complaint.
TEST(WholeJpeg, AcceptsNoDamageThatTheDecoderFinds) {
    WholeJpegCheck check;
    std::mt19937 random(7);
    std::size_t accepted = 0, refused = 0;
    for (const JpegTables& tables : plain_kinds()) {
        const std::string file = encode_jpeg(kSize, gradient(kSize), tables);
        for (int round = 0; round < 3000; ++round) {
            std::string damaged = file;
            const std::size_t bytes = 1 + random() % 4;
            const std::size_t at = random() % (file.size() - bytes);
            for (std::size_t i = 0; i < bytes; ++i) damaged[at + i] = static_cast<char>(random());
            if (!check(bytes_of(damaged))) {
                ++refused;
                continue;
            }
            ++accepted;
            ASSERT_TRUE(decodes(damaged)) << "byte " << at << ", round " << round;
        }
    }
    EXPECT_GT(accepted, 1000U);
    EXPECT_GT(refused, 5000U);
}

}  // namespace
}  // namespace offramp
