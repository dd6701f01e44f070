#include "common/app/images/orientation.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdlib>

#include "common/app/images/image_decode.hpp"
#include "tests/unit/images/picture_files.hpp"

namespace offramp {
namespace {

constexpr ImageSize kUpright{48, 32};

// The sides of the upright picture at which the standard puts the stored picture's first row and column.
enum class Side { Top, Right, Bottom, Left };
struct Case {
    unsigned value;
    Side row0, column0;
};
const Case kCases[] = {{1, Side::Top, Side::Left},     {2, Side::Top, Side::Right},  {3, Side::Bottom, Side::Right},
                       {4, Side::Bottom, Side::Left},  {5, Side::Left, Side::Top},   {6, Side::Right, Side::Top},
                       {7, Side::Right, Side::Bottom}, {8, Side::Left, Side::Bottom}};

// The picture as a camera held that way stores it.
Rgb stored_picture(const Rgb& upright, ImageSize size, const Case& held) {
    const bool swapped = held.row0 == Side::Left || held.row0 == Side::Right;
    const ImageSize stored = swapped ? ImageSize{size.height, size.width} : size;
    Rgb pixels;
    for (std::uint32_t row = 0; row < stored.height; ++row)
        for (std::uint32_t column = 0; column < stored.width; ++column) {
            std::uint32_t x = 0, y = 0;
            const auto put = [&](Side side, std::uint32_t distance) {
                if (side == Side::Top) y = distance;
                if (side == Side::Bottom) y = size.height - 1 - distance;
                if (side == Side::Left) x = distance;
                if (side == Side::Right) x = size.width - 1 - distance;
            };
            put(held.row0, row);
            put(held.column0, column);
            for (std::size_t channel = 0; channel < 3; ++channel)
                pixels.push_back(upright[(std::size_t{y} * size.width + x) * 3 + channel]);
        }
    return pixels;
}

ImageSize stored_size(ImageSize upright, const Case& held) {
    return upright_size(upright, static_cast<Orientation>(held.value));
}

// A photograph taken with the camera held that way.
std::string photograph(ImageSize upright, const Case& held, TiffOrder order = TiffOrder::LittleEndian) {
    const Rgb pixels = stored_picture(gradient(upright), upright, held);
    return with_exif(encode_jpeg(stored_size(upright, held), pixels), exif_of(held.value, order));
}

int largest_difference(const Rgb& a, const Rgb& b) {
    int largest = a.size() == b.size() ? 0 : 256;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
    return largest;
}

Rgb decode(const std::string& file, ImageSize size) {
    Rgb pixels(size.rgb_bytes());
    ImageDecoder().decode(std::as_bytes(std::span(file)), size, std::as_writable_bytes(std::span(pixels)));
    return pixels;
}

TEST(Orientation, UndoesAllEightOrientationsExactly) {
    const ImageSize sizes[] = {{1, 1}, {1, 5}, {7, 3}, {130, 67}};
    for (const Case& held : kCases)
        for (const ImageSize size : sizes) {
            const Rgb upright = gradient(size, 3);
            Rgb found(size.rgb_bytes());
            bring_upright(stored_picture(upright, size, held).data(), stored_size(size, held),
                          static_cast<Orientation>(held.value), found.data());
            EXPECT_EQ(found, upright) << held.value << " of " << size.width << " x " << size.height;
        }
}

TEST(Orientation, TurnsPhotographsUpright) {
    for (const Case& held : kCases)
        for (const TiffOrder order : {TiffOrder::LittleEndian, TiffOrder::BigEndian})
            EXPECT_LE(largest_difference(decode(photograph(kUpright, held, order), kUpright), gradient(kUpright)), 6)
                << held.value;
}

// The upright sides determine the scale, and the resize follows.
TEST(Orientation, AScaledDecodeOfALargePhotographIsUpright) {
    for (const Case& held : kCases)
        for (const std::uint32_t factor : {2U, 3U, 8U}) {
            const std::string file = photograph({kUpright.width * factor, kUpright.height * factor}, held);
            EXPECT_LE(largest_difference(decode(file, kUpright), gradient(kUpright)), 8)
                << held.value << " at " << factor;
        }
}

TEST(Orientation, CutsTheMiddleOfTheUprightPicture) {
    const PictureFrame frame({24, 24}, 30);
    for (const Case& held : kCases)
        for (const std::uint32_t factor : {1U, 4U}) {
            const ImageSize large{kUpright.width * factor, kUpright.height * factor};
            const std::string file = photograph(large, held);
            Rgb found(frame.size.rgb_bytes()), wanted(frame.size.rgb_bytes());
            ImageDecoder().decode(std::as_bytes(std::span(file)), frame, std::as_writable_bytes(std::span(found)));
            const Rgb upright = decode(file, kUpright);  // at the scale at which the middle is decoded, too
            Resizer().resize_part(upright.data(), kUpright, frame.part_of(large), wanted.data(), frame.size);
            EXPECT_EQ(found, wanted) << held.value << " at " << factor;
        }
}

// Half of 200 x 120 is too low for 20 x 100, though it would do for the stored sides.
TEST(Orientation, ChoosesTheScaleByTheUprightSides) {
    const TempFolder folder;
    const ImageSize large{200, 120}, small{20, 100};
    const std::string file = photograph(large, kCases[5]);
    Rgb whole, wanted(small.rgb_bytes());
    ImageDecoder().decode_file_in_full(folder.write("a.jpg", file), whole);
    Resizer().resize(whole.data(), large, wanted.data(), small);
    EXPECT_EQ(decode(file, small), wanted);
}

TEST(Orientation, AFullDecodeHasTheUprightSize) {
    const TempFolder folder;
    for (const Case& held : kCases) {
        Rgb pixels;
        const std::string path = folder.write("a.jpg", photograph(kUpright, held));
        EXPECT_EQ(ImageDecoder().decode_file_in_full(path, pixels), kUpright) << held.value;
        EXPECT_LE(largest_difference(pixels, gradient(kUpright)), 6) << held.value;
    }
}

TEST(Orientation, AppliesToWebp) {
    for (const Case& held : kCases) {
        const ImageSize stored = stored_size(kUpright, held);
        const std::string webp = encode_webp(stored, stored_picture(gradient(kUpright), kUpright, held));
        EXPECT_EQ(decode(webp_with_exif(webp, stored, exif_of(held.value)), kUpright), gradient(kUpright))
            << held.value;
        EXPECT_EQ(decode(webp_with_exif(webp, stored, std::string("Exif\0\0", 6) + exif_of(held.value)), kUpright),
                  gradient(kUpright))
            << held.value;
    }
    const std::string webp = webp_with_exif(encode_webp(kUpright, gradient(kUpright)), kUpright, "no TIFF");
    EXPECT_EQ(decode(webp, kUpright), gradient(kUpright));
}

TEST(Orientation, APictureWithoutValidOrientationIsUpright) {
    const std::string jpeg = encode_jpeg(kUpright, gradient(kUpright));
    const auto of = [](const std::string& file) { return jpeg_orientation(std::as_bytes(std::span(file))); };
    EXPECT_EQ(of(jpeg), Orientation::Upright);
    EXPECT_EQ(of(with_exif(jpeg, exif_of(6))), Orientation::QuarterClockwise);
    for (const unsigned value : {0U, 9U, 600U})
        EXPECT_EQ(of(with_exif(jpeg, exif_of(value))), Orientation::Upright) << value;
    EXPECT_EQ(of(with_exif(jpeg, "")), Orientation::Upright);
    EXPECT_EQ(of(with_exif(jpeg, "XX" + exif_of(6).substr(2))), Orientation::Upright);
    for (std::size_t kept = 0; kept < 32; ++kept)
        EXPECT_EQ(of(with_exif(jpeg, exif_of(6).substr(0, kept))), Orientation::Upright) << kept;
    // It is found before another segment, too; after the first scan, bytes only look like one.
    EXPECT_EQ(of(with_exif(with_exif(jpeg, exif_of(3)), "nothing")), Orientation::Upright);
    EXPECT_EQ(of(jpeg + with_exif(jpeg, exif_of(3)).substr(2)), Orientation::Upright);
}

TEST(Orientation, ReadsNoBytesOutsideTheFile) {
    rc::check([] {
        const auto bytes = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
        std::string file = with_exif(
            std::string("\xff\xd8\xff\xd9", 4),
            exif_of(6, *rc::gen::elementOf(std::vector{TiffOrder::LittleEndian, TiffOrder::BigEndian})) + bytes);
        for (int i = 0; i < 4; ++i) file[*rc::gen::inRange<std::size_t>(0, file.size())] = *rc::gen::arbitrary<char>();
        const std::vector<char> exact(file.begin(), file.end());
        const Orientation found = jpeg_orientation(std::as_bytes(std::span(exact)));
        RC_ASSERT(found >= Orientation::Upright && found <= Orientation::QuarterCounterclockwise);
    });
}

}  // namespace
}  // namespace offramp
