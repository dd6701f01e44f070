#include "common/app/images/resize.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/images/picture_files.hpp"

namespace offramp {
namespace {

Rgb resize(const Rgb& from, ImageSize from_size, ImageSize to_size) {
    Rgb to(to_size.rgb_bytes());
    Resizer().resize(from.data(), from_size, to.data(), to_size);
    return to;
}

Rgb part_of(const Rgb& from, ImageSize from_size, const ResizedPart& part, ImageSize to_size,
            Interpolation interpolation) {
    Rgb to(to_size.rgb_bytes());
    Resizer().resize_part(from.data(), from_size, part, to.data(), to_size, interpolation);
    return to;
}

Rgb gray_line(std::initializer_list<int> values) {
    Rgb line;
    for (const int value : values) line.insert(line.end(), 3, static_cast<std::uint8_t>(value));
    return line;
}

std::uint64_t fnv1a(const Rgb& bytes) {
    std::uint64_t hash = 0xcbf29ce484222325ULL;
    for (const std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3ULL;
    return hash;
}

TEST(Resize, HalvesWithATriangleTwoPixelsToEachSide) {
    // Weights 1, 3, 3, 1 of 8 inside; at the borders, outside weights are omitted: 3, 3, 1 of 7.
    EXPECT_EQ(resize(gray_line({0, 80, 160, 240}), {4, 1}, {2, 1}), gray_line({57, 183}));
    EXPECT_EQ(resize(gray_line({10, 10, 100, 200, 10, 10}), {6, 1}, {3, 1}), gray_line({23, 115, 37}));
}

TEST(Resize, DoublesBetweenNeighbours) {
    EXPECT_EQ(resize(gray_line({0, 100}), {2, 1}, {4, 1}), gray_line({0, 25, 75, 100}));
    EXPECT_EQ(resize(gray_line({0, 100}), {1, 2}, {1, 4}), gray_line({0, 25, 75, 100}));
}

TEST(Resize, KeepsChannelsApart) { EXPECT_EQ(resize({0, 100, 200, 100, 200, 0}, {2, 1}, {1, 1}), (Rgb{50, 150, 100})); }

TEST(Resize, ACubicOvershootsAndIsClamped) {
    // An edge, enlarged twice: weights such as -9, 111, 29, -3, in 128ths.
    EXPECT_EQ(part_of(gray_line({0, 0, 100, 100}), {4, 1}, {.width = 8, .height = 1}, {8, 1}, Interpolation::Bicubic),
              gray_line({0, 0, 0, 20, 80, 107, 102, 100}));
}

// FNV-1a of PIL's Image.resize(), BILINEAR and BICUBIC, of the same noise, one direction after the other.
TEST(Resize, EqualsPilBitForBit) {
    struct Case {
        ImageSize from, to;
        std::uint64_t bilinear, bicubic;
    };
    for (const Case& c : std::vector<Case>{{{7, 5}, {7, 5}, 0x5fa20af5cb9c9ec9ULL, 0x5fa20af5cb9c9ec9ULL},
                                           {{7, 5}, {14, 10}, 0xbd52db21167505caULL, 0x2078b68c16aac0e3ULL},
                                           {{64, 48}, {20, 20}, 0x31b0c844ab324d03ULL, 0xaf3ac5ab8dad4132ULL},
                                           {{37, 91}, {50, 13}, 0x824ffbed2fedeb17ULL, 0xc2fe857179b51cedULL},
                                           {{100, 1}, {9, 3}, 0x7d4da461194399ebULL, 0x97ea20be423de2b3ULL},
                                           {{1, 1}, {4, 4}, 0x8ad5e228f9590335ULL, 0x8ad5e228f9590335ULL},
                                           {{500, 375}, {512, 512}, 0xbe7952ae6c095816ULL, 0xcc547375937d035fULL},
                                           {{33, 20}, {33, 7}, 0x0c92bf930ef0c8a2ULL, 0x1b9a411c8e54a813ULL},
                                           {{33, 20}, {8, 20}, 0x5bd25b8ee4167f38ULL, 0xe8784e3d012b1cf9ULL}}) {
        const std::string sizes = std::to_string(c.from.width) + "x" + std::to_string(c.from.height) + " to " +
                                  std::to_string(c.to.width) + "x" + std::to_string(c.to.height);
        EXPECT_EQ(fnv1a(resize(noise(c.from), c.from, c.to)), c.bilinear) << sizes;
        const ResizedPart whole{.width = c.to.width, .height = c.to.height};
        EXPECT_EQ(fnv1a(part_of(noise(c.from), c.from, whole, c.to, Interpolation::Bicubic)), c.bicubic) << sizes;
    }
}

// Resized or cut in any direction, a part equals that part of the whole.
void expect_parts_of_the_whole(Interpolation interpolation) {
    const ImageSize from{41, 30};
    const Rgb picture = noise(from);
    for (const ImageSize whole :
         {ImageSize{41, 30}, ImageSize{41, 17}, ImageSize{20, 30}, ImageSize{19, 14}, ImageSize{97, 71}}) {
        const Rgb resized =
            part_of(picture, from, {.width = whole.width, .height = whole.height}, whole, interpolation);
        for (const ImageSize size : {whole, ImageSize{7, 5}, ImageSize{1, whole.height}, ImageSize{whole.width, 1}})
            for (const bool far : {false, true}) {
                const ResizedPart part{.width = whole.width,
                                       .height = whole.height,
                                       .left = far ? whole.width - size.width : 0,
                                       .top = far ? whole.height - size.height : 0};
                const Rgb found = part_of(picture, from, part, size, interpolation);
                for (std::uint32_t y = 0; y < size.height; ++y) {
                    const auto row =
                        resized.begin() + static_cast<std::ptrdiff_t>(((part.top + y) * whole.width + part.left) * 3);
                    ASSERT_TRUE(std::equal(row, row + std::ptrdiff_t{size.width} * 3,
                                           found.begin() + std::ptrdiff_t{y} * size.width * 3))
                        << whole.width << " x " << whole.height << ", " << size.width << " x " << size.height
                        << " from " << part.left << ", line " << y;
                }
            }
    }
}

TEST(Resize, APartEqualsThatOfTheWhole) {
    expect_parts_of_the_whole(Interpolation::Bilinear);
    expect_parts_of_the_whole(Interpolation::Bicubic);
}

TEST(Resize, APlaneEqualsOneChannelOfAPicture) {
    for (const ImageSize to : {ImageSize{9, 7}, ImageSize{5, 30}, ImageSize{31, 17}, ImageSize{90, 17}}) {
        const ImageSize from{31, 17};
        Rgb plane(from.pixels());
        const Rgb picture = noise(from);
        for (std::size_t i = 0; i < plane.size(); ++i) plane[i] = picture[3 * i + 1];
        Rgb out(to.pixels());
        Resizer().resize_plane(plane.data(), from, out.data(), to);
        const Rgb wanted = resize(picture, from, to);
        for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], wanted[3 * i + 1]) << i;
    }
}

TEST(Resize, KeepsAFlatPictureFlat) {
    for (const ImageSize size : {ImageSize{1, 1}, ImageSize{3, 200}, ImageSize{513, 2}}) {
        const Rgb flat = resize(Rgb(ImageSize{31, 17}.rgb_bytes(), 255), {31, 17}, size);
        EXPECT_EQ(std::count(flat.begin(), flat.end(), 255), static_cast<std::ptrdiff_t>(size.rgb_bytes()));
    }
}

TEST(Resize, ScratchMemoryDoesNotAffectTheNextSize) {
    Resizer used;
    Rgb out(ImageSize{90, 90}.rgb_bytes());
    used.resize(noise({200, 200}).data(), {200, 200}, out.data(), {90, 90});
    Rgb small(ImageSize{5, 4}.rgb_bytes());
    used.resize(noise({9, 7}).data(), {9, 7}, small.data(), {5, 4});
    EXPECT_EQ(small, resize(noise({9, 7}), {9, 7}, {5, 4}));
}

}  // namespace
}  // namespace offramp
