#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "common/images/image_decode.hpp"
#include "consumer/processors/palette_png.hpp"
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

TEST(Overlay, CoversThingsWithHalfOfTheirClassesColourAndLeavesTheBackground) {
    const ImageSize size{64, 32};
    const ScratchFolder input, output;
    const Rgb original = gradient(size);
    std::ofstream(input.path() + "/sample.png", std::ios::binary) << encode_png(size, original);
    HandMade made = one_sample();
    made.add(spec_of("classes", kUInt8, {1, 1, 2}));
    made.contents.transform = OutputTransform::ClassMap;
    const std::uint8_t ids[] = {0, 15};
    std::memcpy(made.storage[0].data(), ids, sizeof ids);
    RunConfig config = test::config_for("overlay", output.path());
    config.input = input.path();
    make_processor("overlay", {&config})->process(made.contents, test::kNoProgress, test::kCurrent);

    Rgb found;
    ASSERT_EQ(ImageDecoder().decode_file_in_full(output.path() + "/sample.jpg", found), size);
    const auto colour = voc_palette()[15];
    for (std::uint32_t y = 0; y < size.height; ++y)
        for (std::uint32_t x = 0; x < size.width; ++x) {
            if (x > 26 && x < 38) continue;  // JPEG smears the border
            for (std::size_t c = 0; c < 3; ++c) {
                const std::size_t at = (std::size_t{y} * size.width + x) * 3 + c;
                const int wanted = x < 32 ? original[at] : (original[at] + colour[c]) / 2;
                ASSERT_LE(std::abs(found[at] - wanted), 12) << x << " " << y;
            }
        }
}

}  // namespace
}  // namespace offramp
