#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

#include "common/app/images/image_decode.hpp"
#include "common/base/error.hpp"
#include "consumer/processors/pictures/lossy_encoders.hpp"
#include "consumer/processors/pictures/output_pixels.hpp"
#include "consumer/processors/processor.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/unit/images/picture_files.hpp"
#include "tests/unit/processors/decoded_png.hpp"
#include "tests/unit/processors/hand_made.hpp"

namespace offramp {
namespace {

using test::HandMade;
using test::one_sample;
using test::ScratchFolder;
using test::spec_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class ImageProcessor : public testing::Test {
  protected:
    // The names of the files.
    std::vector<std::string> run_over(const SlabContents& contents) {
        config_.output = output_.path();
        make_processor("image", config_)->process(contents, test::kNoProgress, test::kCurrent);
        std::vector<std::string> names;
        for (const auto& [name, text] : test::read_tree(output_.path())) names.push_back(name);
        return names;
    }
    std::vector<int> rgb_of(const std::string& name) {
        std::vector<std::uint8_t> rgb;
        ImageDecoder().decode_file_in_full(output_.path() + "/" + name, rgb);
        return {rgb.begin(), rgb.end()};
    }
    std::string refusal(const SlabContents& contents) {
        try {
            run_over(contents);
        } catch (const ConfigError& error) {
            EXPECT_EQ(error.kind(), ErrorKind::Usage);
            EXPECT_TRUE(test::read_tree(output_.path()).empty());
            return error.what();
        }
        return "no error";
    }
    // Two pixels of red, green and blue.
    static HandMade picture(std::initializer_list<float> planes) {
        HandMade made = one_sample();
        made.add(spec_of("picture", kFloat32, {1, static_cast<std::int64_t>(planes.size()) / 2, 1, 2}));
        std::ranges::copy(planes, made.storage[0].begin());
        return made;
    }
    // Files that the loop encoded. Borrows `files`.
    static SlabContents encoded(const std::vector<std::string>& files) {
        SlabContents contents;
        contents.tensors.push_back({.spec = {.name = "jpeg", .dtype = kUInt8, .dims = 2}, .bytes = {}});
        TensorView& tensor = contents.tensors.back();
        tensor.spec.shape = {static_cast<std::int64_t>(files.size()), kVarying};
        for (const std::string& file : files) {
            const auto row = static_cast<std::uint32_t>(contents.samples.size());
            contents.samples.push_back({.item = row, .batch = 0, .row = row, .key = std::to_string(row)});
            tensor.samples.push_back(std::as_bytes(std::span(file)));
            tensor.extents.push_back(static_cast<std::int64_t>(file.size()));
        }
        return contents;
    }

    ScratchFolder output_;
    RunConfig config_;
};

TEST_F(ImageProcessor, NumbersBecomePixelsByTheirRange) {
    EXPECT_THAT(run_over(picture({0, 1, /**/ 0.5F, 0.25F, /**/ -0.1F, 1.2F}).contents), ElementsAre("sample.png"));
    EXPECT_THAT(rgb_of("sample.png"), ElementsAre(0, 128, 0, 255, 64, 255));
    config_.catalogue.put("image-range", "-1:1");
    run_over(picture({-1, 1, /**/ 0, -0.5F, /**/ 0.5F, 1.2F}).contents);
    EXPECT_THAT(rgb_of("sample.png"), ElementsAre(0, 128, 191, 255, 64, 255));
    config_.catalogue.put("image-range", "0:255");
    run_over(picture({0, 255, /**/ 127.4F, 127.6F, /**/ -3, 260}).contents);
    EXPECT_THAT(rgb_of("sample.png"), ElementsAre(0, 127, 0, 255, 128, 255));
}

TEST_F(ImageProcessor, BytesAreUnchangedInAnyMemoryOrder) {
    HandMade made = one_sample();
    made.add(spec_of("picture", kUInt8, {1, 3, 1, 2}));
    made.contents.tensors[0].spec.strides = {6, 1, 6, 3};
    const std::uint8_t pixels[] = {1, 2, 3, 253, 254, 255};
    std::memcpy(made.storage[0].data(), pixels, sizeof pixels);
    run_over(made.contents);
    EXPECT_THAT(rgb_of("sample.png"), testing::ElementsAreArray(pixels));
}

TEST_F(ImageProcessor, WritesGrayAndAlpha) {
    run_over(picture({0, 1}).contents);
    EXPECT_THAT(rgb_of("sample.png"), ElementsAre(0, 0, 0, 255, 255, 255));
    run_over(picture({1, 0, /**/ 0, 1, /**/ 0, 0, /**/ 0.2F, 1}).contents);
    const std::string file = test::read_tree(output_.path()).at("sample.png");
    using Pixel = std::array<std::uint8_t, 4>;
    EXPECT_THAT(test::decode_rgba_png(std::as_bytes(std::span(file))).pixels,
                ElementsAre(Pixel{255, 0, 0, 51}, Pixel{0, 255, 0, 255}));
}

TEST_F(ImageProcessor, JpegAndWebpFollowTheQuality) {
    HandMade made = one_sample();
    made.add(spec_of("picture", kFloat32, {1, 3, 32, 32}));
    for (std::size_t i = 0; i < 3 * 32 * 32; ++i) made.storage[0][i] = static_cast<float>(i % 32) / 31;
    std::map<std::string, std::size_t> bytes;
    for (const char* format : {"jpeg", "webp"})
        for (const std::uint32_t quality : {10U, 95U}) {
            config_.catalogue.put("image-format", format);
            config_.catalogue.put("image-quality", quality);
            run_over(made.contents);
            const std::string name =
                std::string("sample.") + (config_.catalogue.text("image-format") == "jpeg" ? "jpg" : "webp");
            bytes[format + std::to_string(quality)] = test::read_tree(output_.path()).at(name).size();
            if (quality < 90) continue;
            const auto found = rgb_of(name);
            ASSERT_EQ(found.size(), 3U * 32 * 32);
            for (std::size_t i = 0; i < found.size(); ++i)
                ASSERT_LE(std::abs(found[i] - static_cast<int>(i / 3 % 32) * 255 / 31), 12) << format << i;
        }
    EXPECT_LT(bytes["jpeg10"], bytes["jpeg95"]);
    EXPECT_LT(bytes["webp10"], bytes["webp95"]);
    // Gray, which WebP does not have.
    made.contents.tensors[0].spec.shape[1] = 1;
    for (const char* format : {"jpeg", "webp"}) {
        config_.catalogue.put("image-format", format);
        run_over(made.contents);
    }
    const auto gray = rgb_of("sample.webp");
    for (std::size_t i = 0; i < gray.size(); ++i)
        ASSERT_LE(std::abs(gray[i] - static_cast<int>(i / 3 % 32) * 255 / 31), 12) << i;
}

TEST_F(ImageProcessor, KeepsTheBytesOfEncodedFiles) {
    const std::vector<std::uint8_t> pixels(std::size_t{3} * 8 * 4, 200);
    std::vector<std::string> files;
    for (const int quality : {30, 95}) {
        JpegEncoder encoder(quality);
        const auto file = encoder.encode(pixels, {8, 4});
        files.emplace_back(reinterpret_cast<const char*>(file.data()), file.size());
    }
    files.emplace_back();  // of an item that is skipped
    SlabContents contents = encoded(files);
    contents.samples[2].empty = true;
    config_.catalogue.put("image-format", "webp");  // of pixels
    EXPECT_THAT(run_over(contents), ElementsAre("0.jpg", "1.jpg"));
    const test::Tree written = test::read_tree(output_.path());
    EXPECT_EQ(written.at("0.jpg"), files[0]);
    EXPECT_EQ(written.at("1.jpg"), files[1]);
    EXPECT_THAT(make_processor("image", config_)->files_of(contents, contents.samples[1]), ElementsAre("1.jpg"));
}

TEST_F(ImageProcessor, RefusesPixelsWhereTheGpuShouldHaveEncodedThem) {
    config_.catalogue.put("encode", "gpu");
    EXPECT_THAT(refusal(picture({0, 1, 0, 1, 0, 1}).contents),
                AllOf(HasSubstr("--encode gpu: the output picture float32 [1, 3, 1, 2]"), HasSubstr("offramp.reduce")));
}

TEST_F(ImageProcessor, WritesEncodedFilesBesidePixels) {
    const std::vector<std::string> files{"\xff\xd8\xff the rest \xff\xd9"};
    SlabContents contents = encoded(files);
    const std::array<std::byte, 2> pixels{};
    contents.tensors.push_back({.spec = spec_of("mask", kUInt8, {1, 1, 1, 2}), .bytes = pixels});
    EXPECT_THAT(run_over(contents), ElementsAre("0.jpeg.jpg", "0.mask.png"));
}

TEST_F(ImageProcessor, RefusesEncodedBytesThatAreNoCompleteJpeg) {
    const std::string whole = "\xff\xd8\xff the rest \xff\xd9";
    const std::vector<std::string> files{
        {}, "\xff\xd8", "\x89PNG the rest \xff\xd9", whole.substr(0, whole.size() - 1)};
    for (const std::string& file : files)
        EXPECT_THAT(refusal(encoded(std::vector{file})),
                    AllOf(HasSubstr("output jpeg uint8 [1, ?] of the item '0' holds " + std::to_string(file.size())),
                          HasSubstr(file.ends_with(" \xff") ? "FF D9" : "FF D8 FF"), HasSubstr("offramp.reduce")));
}

TEST(SizeInProportion, IsThePicturesSizeTimesTheNetworksFactor) {
    constexpr std::uint32_t kLongest = 16'383;
    EXPECT_EQ(size_in_proportion({80, 40}, {128, 128}, 64, kLongest), (ImageSize{160, 80}));
    EXPECT_EQ(size_in_proportion({40, 80}, {64, 64}, 64, kLongest), (ImageSize{40, 80}));
    EXPECT_EQ(size_in_proportion({4000, 3000}, {32, 32}, 64, kLongest), (ImageSize{2000, 1500}));
    EXPECT_EQ(size_in_proportion({64, 64}, {256, 256}, 64, kLongest), (ImageSize{256, 256}));
    // With another output beside it, it keeps the size of the network.
    EXPECT_EQ(size_in_proportion({80, 40}, {128, 64}, 64, kLongest), (ImageSize{160, 40}));
    // The network's input is unknown: no output may be lost.
    EXPECT_EQ(size_in_proportion({80, 40}, {128, 128}, 0, kLongest), (ImageSize{256, 128}));
    // Within the limit of a file.
    EXPECT_EQ(size_in_proportion({10'000, 10}, {256, 256}, 64, kLongest), (ImageSize{16'383, 16}));
    const ImageSize most = size_in_proportion({10'000, 5'000}, {512, 512}, 128, 1'000'000);
    EXPECT_LE(most.pixels(), kMaxImagePixels);
    EXPECT_NEAR(static_cast<double>(most.width) / most.height, 2, 0.001);
    EXPECT_EQ(size_in_proportion({1, 3'000}, {16, 16}, 256, kLongest), (ImageSize{1, 188}));
}

// A picture twice as wide as high, of which the network saw a square of 32 x 32 and gives twice the size.
class ImageOfAPicture : public ImageProcessor {
  protected:
    HandMade enlarged(std::int64_t channels) {
        std::ofstream(input_.path() + "/sample.png", std::ios::binary) << encode_png({80, 40}, gradient({80, 40}));
        config_.input = input_.path();
        config_.image_size = 32;
        HandMade made = one_sample();
        made.add(spec_of("picture", kFloat32, {1, channels, 64, 64}));
        for (std::size_t i = 0; i < made.storage[0].size(); ++i)
            made.storage[0][i] = i / 4096 == 3 ? (i % 64 < 32 ? 0.0F : 1.0F) : static_cast<float>(i % 64) / 63;
        return made;
    }
    ImageSize size_of(const std::string& name) { return ImageDecoder().size_of_file(output_.path() + "/" + name); }

    ScratchFolder input_;
};

TEST_F(ImageOfAPicture, HasThePicturesProportions) {
    for (const std::int64_t channels : {1, 3, 4})
        for (const char* format : {"png", "webp", "jpeg"}) {
            if (channels == 4 && std::string(format) == "jpeg") continue;
            config_.catalogue.put("image-format", format);
            const HandMade made = enlarged(channels);
            run_over(made.contents);
            EXPECT_EQ(size_of(std::string("sample.") + (std::string(format) == "jpeg" ? "jpg" : format)),
                      (ImageSize{160, 80}))
                << channels << format;
        }
    config_.catalogue.put("image-format", "png");
    run_over(enlarged(3).contents);
    const std::vector<int> rgb = rgb_of("sample.png");
    for (std::size_t i = 0; i < rgb.size(); i += 3)
        ASSERT_NEAR(rgb[i], static_cast<double>(i / 3 % 160) * 255 / 159, 4);
}

TEST_F(ImageOfAPicture, HiddenColoursDoNotBleedIntoOthers) {
    run_over(enlarged(4).contents);
    const std::string file = test::read_tree(output_.path()).at("sample.png");
    const auto pixels = test::decode_rgba_png(std::as_bytes(std::span(file))).pixels;
    for (std::size_t x = 0; x < 160; ++x) {
        if (pixels[x][3] == 0) continue;
        EXPECT_GE(pixels[x][0], 32 * 255 / 63 - 8) << x;
    }
    EXPECT_EQ(pixels[10][3], 0);
    EXPECT_EQ(pixels[150][3], 255);
}

TEST_F(ImageOfAPicture, HasTheModelsSizeWhenAskedAndForTiles) {
    config_.catalogue.put("picture-size", "model");
    run_over(enlarged(3).contents);
    EXPECT_EQ(size_of("sample.png"), (ImageSize{64, 64}));
    config_.catalogue.put("picture-size", "image");
    config_.tile = 32;
    run_over(enlarged(3).contents);
    EXPECT_EQ(size_of("sample.png"), (ImageSize{64, 64}));
}

// An 80 x 40 picture, resized to 64 x 32, its middle 32 x 32: 40 x 40 of its pixels.
TEST_F(ImageOfAPicture, HasTheSizeOfTheMiddleItIsMadeFrom) {
    const HandMade made = enlarged(3);
    config_.resize_size = 32;
    run_over(made.contents);
    EXPECT_EQ(size_of("sample.png"), (ImageSize{80, 80}));
}

TEST_F(ImageProcessor, EachFittingOutputHasAFile) {
    HandMade made = picture({0, 1, 0, 1, 0, 1});
    made.add(spec_of("other", kUInt8, {1, 3, 1, 2}));
    made.add(spec_of("vector", kFloat32, {1, 8}));
    EXPECT_THAT(run_over(made.contents), ElementsAre("sample.other.png", "sample.picture.png"));
}

TEST_F(ImageProcessor, RefusesOtherTensorsWithTheirNumber) {
    EXPECT_THAT(refusal(picture({0, 200, 0, 0, 0, 0}).contents),
                AllOf(HasSubstr("picture float32 [1, 3, 1, 2]"), HasSubstr("'sample'"), HasSubstr("200"),
                      HasSubstr("--image-range")));
    EXPECT_THAT(refusal(picture({0, -0.9F, 0, 0, 0, 0}).contents), HasSubstr("-0.9"))
        << "as of a network that gives -1 to 1";
    EXPECT_THAT(refusal(picture({0, NAN, 0, 0, 0, 0}).contents), HasSubstr("NaN"));
    EXPECT_THAT(refusal(picture({0, 0, 0, 0}).contents),
                AllOf(HasSubstr("picture float32 [1, 2, 1, 2]"), HasSubstr("[N, 3, H, W]")));
    config_.catalogue.put("image-format", "jpeg");
    EXPECT_THAT(refusal(picture({0, 0, 0, 0, 0, 0, 0, 0}).contents),
                AllOf(HasSubstr("alpha"), HasSubstr("png or webp")));
}

// The default of a model from a file.
TEST(ChosenByTheOutputs, AreMasksWherePossibleElseArrays) {
    const auto names_of = [](const SlabContents& contents) {
        std::vector<std::string> names;
        for (const auto& [name, text] : test::results_of("auto", {}, contents)) names.push_back(name);
        return names;
    };
    HandMade scores = one_sample();
    scores.add(spec_of("logits", kFloat32, {1, 2, 2, 2}));
    EXPECT_THAT(names_of(scores.contents), ElementsAre("sample.png"));
    HandMade vector = one_sample();
    vector.add(spec_of("classes", kFloat32, {1, 10}));
    EXPECT_THAT(names_of(vector.contents), ElementsAre("sample.classes.npy"));
}

}  // namespace
}  // namespace offramp
