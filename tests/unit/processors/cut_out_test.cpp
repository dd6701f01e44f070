#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "common/app/images/image_decode.hpp"
#include "common/base/error.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/segmentation/foreground.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/images/picture_files.hpp"
#include "tests/unit/processors/decoded_png.hpp"
#include "tests/unit/processors/hand_made.hpp"

namespace offramp {
namespace {

using test::HandMade;
using test::one_sample;
using test::ScratchFolder;
using test::spec_of;

// A folder with one original of the sample.
class CutOut : public testing::Test {
  protected:
    void give_original(ImageSize size) {
        original_ = gradient(size);
        size_ = size;
        std::ofstream(input_.path() + "/sample.png", std::ios::binary) << encode_png(size, original_);
    }

    test::Tree run_over(const SlabContents& contents) {
        RunConfig config = test::config_for("cut-out", output_.path());
        config.input = input_.path();
        config.image_size = image_size_;
        config.resize_size = resize_size_;
        config.catalogue.put("png-level", png_level_);
        make_processor("cut-out", config)->process(contents, test::kNoProgress, test::kCurrent);
        return test::read_tree(output_.path());
    }

    // The alpha of each pixel, after comparing the colours with those of the original.
    std::vector<int> alpha_of(const SlabContents& contents, const std::string& name = "sample.png") {
        const std::string file = run_over(contents).at(name);
        const test::DecodedRgba cut = test::decode_rgba_png(std::as_bytes(std::span(file)));
        EXPECT_EQ((ImageSize{cut.width, cut.height}), size_);
        std::vector<int> alpha;
        for (std::size_t i = 0; i < cut.pixels.size(); ++i) {
            alpha.push_back(cut.pixels[i][3]);
            for (std::size_t c = 0; c < 3; ++c)
                EXPECT_EQ(cut.pixels[i][c], alpha.back() == 0 ? 0 : original_[3 * i + c]) << i;
        }
        return alpha;
    }

    ScratchFolder input_, output_;
    Rgb original_;
    ImageSize size_;
    std::uint32_t image_size_ = 0;
    std::uint32_t resize_size_ = 0;
    int png_level_ = 3;
};

TEST_F(CutOut, ClassIdsGiveHardEdgesAtTheOriginalsSize) {
    give_original({4, 2});
    HandMade made = one_sample();
    made.add(spec_of("classes", kUInt8, {1, 2, 4}));
    made.contents.transform = OutputTransform::ClassMap;
    const std::uint8_t ids[] = {0, 1, 2, 0, 0, 0, 255, 7};
    std::memcpy(made.storage[0].data(), ids, sizeof ids);
    EXPECT_THAT(alpha_of(made.contents), testing::ElementsAre(0, 255, 255, 0, 0, 0, 255, 255));
}

// Half opacity becomes a quarter where the network is half sure.
TEST_F(CutOut, KeepsTransparency) {
    const std::vector<std::uint8_t> rgba{200, 100, 50, 0,   201, 101, 51, 128, 202, 102, 52, 255, 203, 103, 53, 255,
                                         210, 110, 60, 128, 211, 111, 61, 255, 212, 112, 62, 3,   213, 113, 63, 0};
    size_ = {4, 2};
    for (std::size_t i = 0; i < rgba.size(); ++i)
        if (i % 4 != 3) original_.push_back(rgba[i]);
    HandMade made = one_sample();
    made.add(spec_of("classes", kUInt8, {1, 2, 4}));
    made.add(spec_of("confidence", kUInt8, {1, 2, 4}));
    made.contents.transform = OutputTransform::ClassMap;
    const std::uint8_t ids[] = {1, 1, 1, 0, 1, 1, 1, 1}, sure[] = {255, 255, 255, 255, 128, 64, 255, 255};
    std::memcpy(made.storage[0].data(), ids, sizeof ids);
    std::memcpy(made.storage[1].data(), sure, sizeof sure);
    const PngLayout with_alpha{.color_type = 6, .palette = {}, .transparency = {}};
    for (const std::string& file : {encode_png(size_, with_alpha, rgba), encode_webp_rgba(size_, rgba)}) {
        std::ofstream(input_.path() + "/sample.png", std::ios::binary) << file;
        EXPECT_THAT(alpha_of(made.contents), testing::ElementsAre(0, 128, 255, 0, 64, 64, 3, 0));
    }
}

TEST_F(CutOut, KeepsTheColourProfile) {
    give_original({4, 2});
    const std::string profile = rgb_profile(70'000);
    const PngLayout with_profile{
        .color_type = 2, .palette = {}, .transparency = {}, .profile = {profile.begin(), profile.end()}};
    std::ofstream(input_.path() + "/sample.png", std::ios::binary) << encode_png(size_, with_profile, original_);
    HandMade made = one_sample();
    made.add(spec_of("classes", kUInt8, {1, 2, 4}));
    for (const int level : {0, 3, 9}) {
        png_level_ = level;
        alpha_of(made.contents);
        Rgb pixels;
        BesideColours beside;
        ImageDecoder().decode_file_in_full(output_.path() + "/sample.png", pixels, &beside);
        EXPECT_EQ(std::string(reinterpret_cast<const char*>(beside.profile.data()), beside.profile.size()), profile)
            << "level " << level;
    }
    give_original({4, 2});
    alpha_of(made.contents);
    Rgb pixels;
    BesideColours beside;
    ImageDecoder().decode_file_in_full(output_.path() + "/sample.png", pixels, &beside);
    EXPECT_TRUE(beside.profile.empty()) << "the previous original's profile";
}

TEST_F(CutOut, ABooleanForegroundHasHardEdges) {
    give_original({4, 1});
    HandMade made = one_sample();
    made.add(spec_of("mask", kBool, {1, 1, 1, 4}));
    const std::uint8_t foreground[] = {0, 1, 1, 0};
    std::memcpy(made.storage[0].data(), foreground, sizeof foreground);
    EXPECT_THAT(alpha_of(made.contents), testing::ElementsAre(0, 255, 255, 0));
}

TEST_F(CutOut, DoesNotReplaceTheOriginalThroughALink) {
    give_original({4, 2});
    HandMade made = one_sample();
    made.add(spec_of("classes", kUInt8, {1, 2, 4}));
    made.contents.transform = OutputTransform::ClassMap;
    const test::Tree before = test::read_tree(input_.path());
    std::filesystem::rename(input_.path() + "/sample.png", output_.path() + "/sample.png");
    std::filesystem::create_symlink(output_.path() + "/sample.png", input_.path() + "/sample.png");
    EXPECT_THAT(test::error_of([&] { run_over(made.contents); }, ErrorKind::Usage),
                testing::HasSubstr(input_.path() + "/sample.png"));
    EXPECT_EQ(test::read_tree(output_.path()), before);
}

// The model saw the middle 4 x 4 of a picture resized to 8 pixels: in this 16 x 8 picture, the pixels from 6, 2. Its
// output is half as large.
TEST_F(CutOut, OutsideTheModelsMiddleIsBackground) {
    give_original({16, 8});
    image_size_ = 4;
    resize_size_ = 8;
    HandMade made = one_sample();
    made.add(spec_of("classes", kUInt8, {1, 2, 2}));
    made.contents.transform = OutputTransform::ClassMap;
    const std::uint8_t ids[] = {1, 1, 1, 1};
    std::memcpy(made.storage[0].data(), ids, sizeof ids);
    const std::vector<int> alpha = alpha_of(made.contents);
    for (std::size_t y = 0; y < 8; ++y)
        for (std::size_t x = 0; x < 16; ++x)
            EXPECT_EQ(alpha[y * 16 + x], x >= 6 && x < 10 && y >= 2 && y < 6 ? 255 : 0) << x << " " << y;
}

TEST_F(CutOut, CutsOutATurnedPhotographUpright) {
    // Stored on its side, 32 x 16: upright it is 16 x 32, and its left half is foreground.
    const ImageSize stored{32, 16};
    Rgb pixels(stored.rgb_bytes());
    // the upright picture's right half is red
    for (std::size_t i = 0; i < stored.pixels(); ++i) pixels[3 * i] = i < stored.pixels() / 2 ? 240 : 20;
    std::ofstream(input_.path() + "/sample.jpg", std::ios::binary)
        << with_exif(encode_jpeg(stored, pixels), exif_of(6));
    HandMade made = one_sample();
    made.add(spec_of("classes", kUInt8, {1, 1, 2}));
    made.contents.transform = OutputTransform::ClassMap;
    const std::uint8_t ids[] = {1, 0};
    std::memcpy(made.storage[0].data(), ids, sizeof ids);
    const std::string file = run_over(made.contents).at("sample.png");
    const test::DecodedRgba cut = test::decode_rgba_png(std::as_bytes(std::span(file)));
    ASSERT_EQ((ImageSize{cut.width, cut.height}), (ImageSize{16, 32}));
    for (std::size_t y = 0; y < 32; ++y) {
        EXPECT_NEAR(cut.pixels[y * 16][0], 20, 8) << y;
        EXPECT_EQ(cut.pixels[y * 16][3], 255) << y;
        EXPECT_EQ(cut.pixels[y * 16 + 15][3], 0) << y;
    }
}

TEST_F(CutOut, EdgesAreSoftWhereTheOriginalIsLarger) {
    give_original({8, 1});
    HandMade made = one_sample();
    made.add(spec_of("classes", kUInt8, {1, 1, 2}));
    made.contents.transform = OutputTransform::ClassMap;
    const std::uint8_t ids[] = {0, 1};
    std::memcpy(made.storage[0].data(), ids, sizeof ids);
    EXPECT_THAT(alpha_of(made.contents), testing::ElementsAre(0, 0, 32, 96, 159, 223, 255, 255));
}

TEST_F(CutOut, ConfidenceIsTheForegroundsAlpha) {
    give_original({4, 1});
    HandMade made = one_sample();
    made.add(spec_of("classes", kUInt8, {1, 1, 4}));
    made.add(spec_of("confidence", kUInt8, {1, 1, 4}));
    made.contents.transform = OutputTransform::ClassMap;
    const std::uint8_t ids[] = {0, 0, 3, 3};
    const std::uint8_t sure[] = {255, 140, 150, 250};
    std::memcpy(made.storage[0].data(), ids, sizeof ids);
    std::memcpy(made.storage[1].data(), sure, sizeof sure);
    EXPECT_THAT(alpha_of(made.contents), testing::ElementsAre(0, 115, 150, 250));
}

TEST_F(CutOut, ScoresGiveTheProbabilityOfNotBeingBackground) {
    give_original({3, 1});
    HandMade made = one_sample();
    made.add(spec_of("logits", kFloat32, {1, 3, 1, 3}));
    const float planes[] = {0, 50, 1, /**/ 0, -50, NAN, /**/ 0, 0, 1};
    std::memcpy(made.storage[0].data(), planes, sizeof planes);
    EXPECT_THAT(alpha_of(made.contents), testing::ElementsAre(170, 0, 0));

    // The same, with the classes of a pixel adjacent.
    made.contents.tensors[0].spec.strides = {9, 1, 9, 3};
    const float pixels[] = {0, 0, 0, /**/ 50, -50, 0, /**/ 1, NAN, 1};
    std::memcpy(made.storage[0].data(), pixels, sizeof pixels);
    EXPECT_THAT(alpha_of(made.contents), testing::ElementsAre(170, 0, 0));
}

TEST_F(CutOut, EnlargesLowResScoresBeforeWeighing) {
    give_original({4, 2});
    HandMade made = one_sample();
    made.add(spec_of("logits", kFloat32, {1, 2, 1, 2}));
    made.contents.transform = OutputTransform::LowRes;
    made.contents.upsample_factor = 2;
    const float planes[] = {4, -4, /**/ 0, 0};  // enlarged: 4, 2, -2, -4
    std::memcpy(made.storage[0].data(), planes, sizeof planes);
    const auto alpha = [](double score) { return static_cast<int>(255 - 255 / (1 + std::exp(-score)) + 0.5); };
    EXPECT_THAT(alpha_of(made.contents), testing::ElementsAre(alpha(4), alpha(2), alpha(-2), alpha(-4), alpha(4),
                                                              alpha(2), alpha(-2), alpha(-4)));
}

TEST_F(CutOut, EachFittingOutputGetsACutOut) {
    give_original({2, 2});
    HandMade made = one_sample();
    made.add(spec_of("out", kFloat32, {1, 2, 1, 1}));
    made.add(spec_of("aux", kBFloat16, {1, 2, 1, 1}));
    const auto tree = run_over(made.contents);
    EXPECT_EQ(tree.size(), 2U);
    EXPECT_TRUE(tree.contains("sample.out.png") && tree.contains("sample.aux.png"));
}

TEST_F(CutOut, NamesAMissingOrBrokenOriginal) {
    give_original({4, 2});
    HandMade made = one_sample();
    made.add(spec_of("classes", kUInt8, {1, 2, 4}));
    made.contents.samples[0].key = "other";
    EXPECT_THAT(test::error_of([&] { run_over(made.contents); }, ErrorKind::NoInput),
                testing::HasSubstr("the sample 'other'"));
    made.contents.samples[0].key = "sample";
    std::ofstream(input_.path() + "/sample.png") << "no image";
    EXPECT_THAT(test::error_of([&] { run_over(made.contents); }, ErrorKind::NoInput),
                testing::HasSubstr("sample.png, cannot be read any more"));
    EXPECT_TRUE(test::read_tree(output_.path()).empty());
}

TEST_F(CutOut, RefusesARunWithoutImagesAtTheStart) {
    RunConfig config = test::config_for("cut-out", output_.path());
    config.input.clear();
    EXPECT_THAT(test::error_of([&] { make_processor("cut-out", config); }, ErrorKind::Usage),
                testing::HasSubstr("--input"));
    config.input = input_.path();
    config.source = "npy";
    EXPECT_THAT(test::error_of([&] { make_processor("cut-out", config); }, ErrorKind::Usage),
                testing::HasSubstr("--input"));
    config.source = "auto";
    EXPECT_THAT(test::error_of([&] { make_processor("cut-out", config); }, ErrorKind::NoInput),
                testing::HasSubstr(input_.path()));
}

}  // namespace
}  // namespace offramp
