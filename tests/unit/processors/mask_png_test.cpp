#include <gmock/gmock.h>

#include <cstring>
#include <fstream>
#include <span>

#include "common/app/images/image_decode.hpp"
#include "common/base/error.hpp"
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

test::Tree masks_of(const SlabContents& contents) {
    const ScratchFolder folder;
    RunConfig config = test::config_for("mask-png", folder.path());
    config.catalogue.put("mask-size", "model");
    make_processor("mask-png", config)->process(contents, test::kNoProgress, test::kCurrent);
    return test::read_tree(folder.path());
}

std::vector<std::uint8_t> ids_in(const std::string& file) {
    return test::decode_png(std::as_bytes(std::span(file))).ids;
}

TEST(MaskPng, WritesClassMapsUnchanged) {
    HandMade made = one_sample();
    made.add(spec_of("map", kUInt8, {1, 2, 3}));
    made.contents.transform = OutputTransform::ClassMap;
    const std::uint8_t ids[] = {0, 1, 2, 253, 254, 255};
    std::memcpy(made.storage[0].data(), ids, sizeof ids);
    EXPECT_THAT(ids_in(masks_of(made.contents).at("sample.png")), ::testing::ElementsAreArray(ids));

    // The same map, stored column by column.
    TensorSpec& spec = made.contents.tensors[0].spec;
    spec.strides[1] = 1;
    spec.strides[2] = 2;
    const std::uint8_t columns[] = {0, 253, 1, 254, 2, 255};
    std::memcpy(made.storage[0].data(), columns, sizeof columns);
    EXPECT_THAT(ids_in(masks_of(made.contents).at("sample.png")), ::testing::ElementsAreArray(ids));
}

TEST(MaskPng, WithoutAPaletteIsAGrayPictureOfIds) {
    HandMade made = one_sample();
    made.add(spec_of("map", kUInt8, {1, 1, 4}));
    const std::uint8_t ids[] = {0, 1, 38, 255};
    std::memcpy(made.storage[0].data(), ids, sizeof ids);
    for (const char* processor : {"mask-png", "auto"}) {
        const ScratchFolder folder;
        RunConfig config = test::config_for(processor, folder.path());
        config.catalogue.put("mask-size", "model");
        config.catalogue.put("mask-palette", "none");
        make_processor(processor, config)->process(made.contents, test::kNoProgress, test::kCurrent);
        Rgb rgb;
        ImageDecoder().decode_file_in_full(folder.path() + "/sample.png", rgb);
        EXPECT_THAT(rgb, ::testing::ElementsAre(0, 0, 0, 1, 1, 1, 38, 38, 38, 255, 255, 255)) << processor;
    }
}

// The output of an argmax, with and without its dimension.
TEST(MaskPng, AcceptsClassIdsOfAnyIntegerType) {
    const std::vector<std::uint8_t> wanted{0, 1, 2, 21, 254, 255};
    const auto file_of = [&](DType dtype, bool keeps_dimension, bool by_columns, std::int64_t last) {
        HandMade made = one_sample();
        TensorSpec spec = keeps_dimension ? spec_of("map", dtype, {1, 1, 2, 3}) : spec_of("map", dtype, {1, 2, 3});
        if (by_columns) spec.strides[spec.dims - 2] = 1, spec.strides[spec.dims - 1] = 2;
        made.storage.emplace_back(16);
        auto* const bytes = reinterpret_cast<std::byte*>(made.storage[0].data());
        for (std::size_t i = 0; i < wanted.size(); ++i) {
            const std::size_t at = by_columns ? i % 3 * 2 + i / 3 : i;
            const std::int64_t id = i == 5 ? last : wanted[i];
            std::memcpy(bytes + at * dtype.bytes(), &id, dtype.bytes());  // little endian
        }
        made.contents.tensors.push_back({spec, std::span<const std::byte>(bytes, 6 * dtype.bytes())});
        return masks_of(made.contents).at("sample.png");
    };
    for (const DType dtype : {kUInt8, kBool, kInt32, kInt64})
        for (const bool keeps_dimension : {false, true})
            for (const bool by_columns : {false, true})
                EXPECT_EQ(ids_in(file_of(dtype, keeps_dimension, by_columns, 255)), wanted)
                    << to_string(dtype) << keeps_dimension << by_columns;
    for (const DType dtype : {kInt32, kInt64})
        for (const std::int64_t id : {std::int64_t{256}, std::int64_t{-1}, std::int64_t{70'000}}) try {
                file_of(dtype, true, false, id);
                ADD_FAILURE() << id;
            } catch (const ConfigError& error) {
                EXPECT_THAT(error.what(), ::testing::AllOf(::testing::HasSubstr("map " + to_string(dtype)),
                                                           ::testing::HasSubstr("the class id " + std::to_string(id)),
                                                           ::testing::HasSubstr("'sample'"),
                                                           ::testing::HasSubstr("--processor npy")));
            }
}

TEST(MaskPng, UsesTheLargestScoreInEitherMemoryFormat) {
    HandMade made = one_sample();
    made.add(spec_of("scores", kFloat32, {1, 3, 1, 4}));
    const float planes[] = {5, 1, 1, 2, /**/ 4, 2, 1, 2, /**/ 3, 3, 1, 3};
    std::memcpy(made.storage[0].data(), planes, sizeof planes);
    EXPECT_THAT(ids_in(masks_of(made.contents).at("sample.png")), ::testing::ElementsAre(0, 2, 0, 2));

    TensorSpec& spec = made.contents.tensors[0].spec;
    spec.strides = {12, 1, 12, 3};
    const float pixels[] = {5, 4, 3, /**/ 1, 2, 3, /**/ 1, 1, 1, /**/ 2, 2, 3};
    std::memcpy(made.storage[0].data(), pixels, sizeof pixels);
    EXPECT_THAT(ids_in(masks_of(made.contents).at("sample.png")), ::testing::ElementsAre(0, 2, 0, 2));
}

TEST(MaskPng, EachFittingOutputGetsAMask) {
    HandMade made = one_sample();
    made.add(spec_of("out", kFloat32, {1, 2, 1, 1}));
    made.add(spec_of("aux", kBFloat16, {1, 2, 1, 1}));
    made.add(spec_of("vector", kFloat32, {1, 8}));
    const auto tree = masks_of(made.contents);
    EXPECT_EQ(tree.size(), 2U);
    EXPECT_TRUE(tree.contains("sample.out.png") && tree.contains("sample.aux.png"));
}

TEST(MaskPng, IgnoresTheConfidenceOfAClassMap) {
    HandMade made = one_sample();
    made.add(spec_of("classes", kUInt8, {1, 1, 2}));
    made.add(spec_of("confidence", kUInt8, {1, 1, 2}));
    made.contents.transform = OutputTransform::ClassMap;
    const std::uint8_t ids[] = {7, 9};
    const std::uint8_t probabilities[] = {200, 255};
    std::memcpy(made.storage[0].data(), ids, sizeof ids);
    std::memcpy(made.storage[1].data(), probabilities, sizeof probabilities);
    const auto tree = masks_of(made.contents);
    EXPECT_EQ(tree.size(), 1U);
    EXPECT_THAT(ids_in(tree.at("sample.png")), ::testing::ElementsAreArray(ids));
}

TEST(MaskPng, EnlargesLowResScoresFirst) {
    HandMade made = one_sample();
    made.add(spec_of("logits", kFloat32, {1, 2, 1, 2}));
    made.contents.transform = OutputTransform::LowRes;
    made.contents.upsample_factor = 4;
    // Class 0 falls from 4 to -2 and class 1 stays 0: they cross at two thirds of the way between the centres of the
    // points.
    const float planes[] = {4, -2, /**/ 0, 0};
    std::memcpy(made.storage[0].data(), planes, sizeof planes);
    const std::string file = masks_of(made.contents).at("sample.png");
    std::vector<std::uint8_t> expected;
    for (int y = 0; y < 4; ++y) expected.insert(expected.end(), {0, 0, 0, 0, 0, 1, 1, 1});
    EXPECT_EQ(ids_in(file), expected);

    // The same in float16.
    made.contents.tensors[0].spec.dtype = kFloat16;
    made.contents.tensors[0].bytes = made.contents.tensors[0].bytes.first(8);
    const std::uint16_t halves[] = {0x4400, 0xc000, /**/ 0, 0};
    std::memcpy(made.storage[0].data(), halves, sizeof halves);
    EXPECT_EQ(masks_of(made.contents).at("sample.png"), file);
}

std::string error_for(const SlabContents& contents) {
    return test::error_of<ConfigError>([&] { masks_of(contents); });
}

// The mask of one sample for a picture of this size.
test::DecodedPng mask_over(ImageSize size, const SlabContents& contents, std::uint32_t image_size = 0,
                           std::uint32_t resize_size = 0) {
    const ScratchFolder input, output;
    std::ofstream(input.path() + "/sample.png", std::ios::binary) << encode_png(size, gradient(size));
    RunConfig config = test::config_for("mask-png", output.path());
    config.input = input.path();
    config.image_size = image_size;
    config.resize_size = resize_size;
    make_processor("mask-png", config)->process(contents, test::kNoProgress, test::kCurrent);
    const std::string file = test::read_tree(output.path()).at("sample.png");
    return test::decode_png(std::as_bytes(std::span(file)));
}

TEST(MaskPng, ScalesScoresToThePicturesSize) {
    HandMade made = one_sample();
    made.add(spec_of("logits", kFloat32, {1, 2, 1, 2}));
    // Over eight columns class 0 has 4, 4, 3.25, 1.75, 0.25, -1.25, -2, -2 and class 1 has 0.
    const float planes[] = {4, -2, /**/ 0, 0};
    std::memcpy(made.storage[0].data(), planes, sizeof planes);
    const auto mask = mask_over({8, 2}, made.contents);
    EXPECT_EQ((ImageSize{mask.width, mask.height}), (ImageSize{8, 2}));
    EXPECT_THAT(mask.ids, ::testing::ElementsAre(0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1));
    EXPECT_THAT(mask_over({1, 1}, made.contents).ids, ::testing::ElementsAre(0)) << "a smaller picture";
    // Omitted from the model, its last enlargement comes first.
    made.contents.transform = OutputTransform::LowRes;
    made.contents.upsample_factor = 2;
    EXPECT_THAT(mask_over({8, 1}, made.contents).ids, ::testing::ElementsAre(0, 0, 0, 0, 0, 1, 1, 1));
}

// Wider than one block of the enlargement.
TEST(MaskPng, WidePicturesHaveNoSeams) {
    HandMade made = one_sample();
    made.add(spec_of("logits", kFloat32, {1, 2, 1, 3}));
    const float planes[] = {1, -1, 1, /**/ 0, 0, 0};
    std::memcpy(made.storage[0].data(), planes, sizeof planes);
    const auto mask = mask_over({6000, 1}, made.contents);
    // The score falls from 1 to -1 between the middles of columns 1000 and 3000, and rises again until 5000.
    for (std::size_t x = 0; x < 6000; ++x) ASSERT_EQ(mask.ids[x], x >= 2000 && x < 4000 ? 1 : 0) << x;
}

TEST(MaskPng, ScalesTheDevicesClassesToTheNearestPixels) {
    HandMade made = one_sample();
    made.add(spec_of("classes", kUInt8, {1, 1, 2}));
    made.contents.transform = OutputTransform::ClassMap;
    const std::uint8_t ids[] = {7, 9};
    std::memcpy(made.storage[0].data(), ids, sizeof ids);
    EXPECT_THAT(mask_over({6, 1}, made.contents).ids, ::testing::ElementsAre(7, 7, 7, 9, 9, 9));
}

// As with cut-outs: of 128 x 64 pixels the model saw the middle 32 x 32.
TEST(MaskPng, AroundTheMiddleThatTheModelSawAllIsBackground) {
    HandMade made = one_sample();
    made.add(spec_of("classes", kUInt8, {1, 1, 1}));
    made.contents.transform = OutputTransform::ClassMap;
    const std::uint8_t id = 5;
    std::memcpy(made.storage[0].data(), &id, 1);
    const auto mask = mask_over({128, 64}, made.contents, 32, 64);
    for (std::size_t y = 0; y < 64; ++y)
        for (std::size_t x = 0; x < 128; ++x)
            ASSERT_EQ(mask.ids[y * 128 + x], x >= 48 && x < 80 && y >= 16 && y < 48 ? 5 : 0) << x << " " << y;
}

TEST(MaskPng, NamesTheFoundAndTheNeededShape) {
    HandMade embedding = one_sample();
    embedding.add(spec_of("embedding", kFloat32, {1, 64, 32}));
    embedding.contents.model.clear();  // of a loop without a name
    EXPECT_THAT(error_for(embedding.contents),
                ::testing::AllOf(::testing::HasSubstr("of any output; output embedding float32 [1, 64, 32]"),
                                 ::testing::HasSubstr("int64 [N, H, W]")));
    HandMade many = one_sample();
    many.add(spec_of("scores", kFloat32, {1, 257, 2, 2}));
    EXPECT_THAT(error_for(many.contents),
                ::testing::AllOf(::testing::HasSubstr("257 classes"), ::testing::HasSubstr("256")));
    HandMade small = one_sample();
    small.add(spec_of("scores", kFloat32, {1, 3, 2, 2000}));
    small.contents.transform = OutputTransform::LowRes;
    small.contents.upsample_factor = 1024;
    EXPECT_THAT(error_for(small.contents), ::testing::HasSubstr("enlarged by 1024"));
}

TEST(MaskPng, RefusesSettingsThatDoNotFit) {
    RunConfig config;
    EXPECT_THROW(make_processor("mask-png", config), ConfigError);
    const ScratchFolder folder;
    config.output = folder.path();
    config.catalogue.put("png-level", 10);
    EXPECT_THROW(make_processor("mask-png", config), ConfigError);
}

}  // namespace
}  // namespace offramp
