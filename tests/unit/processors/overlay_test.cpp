#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "common/app/images/image_decode.hpp"
#include "consumer/processors/pictures/png_encoder.hpp"
#include "consumer/processors/processor.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/unit/images/picture_files.hpp"
#include "tests/unit/processors/hand_made.hpp"

namespace offramp {
namespace {

using test::HandMade;
using test::one_sample;
using test::ScratchFolder;
using test::spec_of;

// The 64 x 32 original and its overlay, with class 0 in the left half, or that of the model's view, and 15 in the
// other.
struct Overlaid {
    Rgb original, found;
};

HandMade classes() {
    HandMade made = one_sample();
    made.add(spec_of("classes", kUInt8, {1, 1, 2}));
    made.contents.transform = OutputTransform::ClassMap;
    const std::uint8_t ids[] = {0, 15};
    std::memcpy(made.storage[0].data(), ids, sizeof ids);
    return made;
}

Overlaid overlaid(std::uint32_t image_size, std::uint32_t resize_size, const HandMade& made = classes()) {
    const ImageSize size{64, 32};
    const ScratchFolder input, output;
    Overlaid made_of{.original = gradient(size), .found = {}};
    std::ofstream(input.path() + "/sample.png", std::ios::binary) << encode_png(size, made_of.original);
    RunConfig config = test::config_for("overlay", output.path());
    config.input = input.path();
    config.image_size = image_size;
    config.resize_size = resize_size;
    make_processor("overlay", config)->process(made.contents, test::kNoProgress, test::kCurrent);
    EXPECT_EQ(ImageDecoder().decode_file_in_full(output.path() + "/sample.jpg", made_of.found), size);
    return made_of;
}

// JPEG smears the borders of the rectangle; elsewhere it is half covered with the colour of its class.
void expect_covered(const Overlaid& made, PictureRect covered, std::size_t of_class = 15) {
    const auto colour = voc_palette()[of_class];
    const auto near = [](std::uint32_t at, std::uint32_t border) { return at + 6 > border && at < border + 6; };
    for (std::uint32_t y = 0; y < 32; ++y)
        for (std::uint32_t x = 0; x < 64; ++x) {
            const std::uint32_t right = covered.left + covered.size.width;
            const std::uint32_t bottom = covered.top + covered.size.height;
            const bool smeared = near(x, covered.left) || (right < 64 && near(x, right)) ||
                                 (covered.top > 0 && near(y, covered.top)) || (bottom < 32 && near(y, bottom));
            if (smeared) continue;
            const bool inside = x >= covered.left && x < right && y >= covered.top && y < bottom;
            for (std::size_t c = 0; c < 3; ++c) {
                const std::size_t at = (std::size_t{y} * 64 + x) * 3 + c;
                const int wanted = inside ? (made.original[at] + colour[c]) / 2 : made.original[at];
                ASSERT_LE(std::abs(made.found[at] - wanted), 12) << x << " " << y;
            }
        }
}

TEST(Overlay, BlendsClassColoursOverTheForeground) { expect_covered(overlaid(0, 0), {.left = 32, .size = {32, 32}}); }

// Its foreground is class 1.
TEST(Overlay, BlendsOverTheForegroundOfOneChannel) {
    HandMade made = one_sample();
    made.add(spec_of("mask", kFloat32, {1, 1, 1, 2}));
    const float scores[] = {0.1F, 0.9F};
    std::memcpy(made.storage[0].data(), scores, sizeof scores);
    expect_covered(overlaid(0, 0, made), {.left = 32, .size = {32, 32}}, 1);
}

// The middle 28 x 28 of the picture resized to 32 pixels: the pixels from 18, 2, whose right half is foreground.
TEST(Overlay, ChangesNothingOutsideTheModelsMiddle) {
    expect_covered(overlaid(28, 32), {.left = 32, .top = 2, .size = {14, 28}});
}

TEST(Overlay, KeepsAColourProfileOfSeveralSegments) {
    const ImageSize size{64, 32};
    const ScratchFolder input, output;
    RunConfig config = test::config_for("overlay", output.path());
    config.input = input.path();
    for (const std::size_t bytes : {std::size_t{500}, std::size_t{65'519}, std::size_t{200'000}}) {
        const std::string profile = rgb_profile(bytes);
        std::ofstream(input.path() + "/sample.jpg", std::ios::binary)
            << jpeg_with_profile(encode_jpeg(size, gradient(size)), profile, 1'000);
        const HandMade made = classes();
        make_processor("overlay", config)->process(made.contents, test::kNoProgress, test::kCurrent);
        Rgb found;
        BesideColours beside;
        EXPECT_EQ(ImageDecoder().decode_file_in_full(output.path() + "/sample.jpg", found, &beside), size);
        EXPECT_EQ(std::string(reinterpret_cast<const char*>(beside.profile.data()), beside.profile.size()), profile);
    }
}

// No JPEG has a side of more than 65,500 pixels.
TEST(Overlay, HalvesAnOriginalTooWideForAJpeg) {
    const ScratchFolder input, output;
    std::ofstream(input.path() + "/sample.png", std::ios::binary) << encode_png({70'000, 3}, gradient({70'000, 3}));
    HandMade made = one_sample();
    made.add(spec_of("classes", kUInt8, {1, 1, 2}));
    made.contents.transform = OutputTransform::ClassMap;
    const std::uint8_t ids[] = {0, 0};
    std::memcpy(made.storage[0].data(), ids, sizeof ids);
    RunConfig config = test::config_for("overlay", output.path());
    config.input = input.path();
    make_processor("overlay", config)->process(made.contents, test::kNoProgress, test::kCurrent);
    Rgb found;
    EXPECT_EQ(ImageDecoder().decode_file_in_full(output.path() + "/sample.jpg", found), (ImageSize{35'000, 2}));
}

}  // namespace
}  // namespace offramp
