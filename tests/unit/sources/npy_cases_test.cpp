#include "producer/runner/sources/npy_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "common/wire/shape_text.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/sources/making.hpp"
#include "tests/unit/sources/npy_bytes.hpp"

namespace offramp {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct NpyCases : ::testing::Test {
    NpyCases() {
        config.model = "net.pt";
        config.input = folder.path().string();
    }
    void write(const std::string& name, const std::string& shape, const std::vector<float>& numbers) {
        folder.write(name, test::npy("<f4", shape, test::bytes_of(numbers)));
    }
    std::unique_ptr<BatchSource> make() {
        const std::int64_t shape[] = {8, 2, 3};
        return test::make_source("npy", config, TensorSpec::contiguous("input", kFloat32, shape), false);
    }
    std::vector<float> row(BatchSource& source, std::uint64_t item) {
        std::vector<float> numbers(6);
        source.load(item, std::as_writable_bytes(std::span(numbers)));
        return numbers;
    }
    std::string skipped(BatchSource& source, std::uint64_t item) {
        return test::error_of<UnreadableItem>([&] { (void)row(source, item); });
    }

    TempFolder folder;
    RunConfig config;
};

TEST_F(NpyCases, EachArrayIsAnItemNamedAfterItsFile) {
    write("bob.v2.npy", "(2, 3)", test::counting(6, 10));
    write("ann.npy", "(2, 3)", test::counting(6));
    folder.write(".hidden.npy", "no array");
    folder.write("notes.txt", "no array");
    const auto source = make();
    EXPECT_EQ(source->items(), 2U);
    EXPECT_EQ(source->key(0), "ann");
    EXPECT_EQ(source->key(1), "bob.v2");
    EXPECT_EQ(source->max_key_bytes(), 6U);
    EXPECT_EQ(row(*source, 0), test::counting(6));
    EXPECT_EQ(row(*source, 1), test::counting(6, 10));
    EXPECT_EQ(source->file(1), config.input + "/bob.v2.npy");
    EXPECT_EQ(source->origin(1), source->file(1));
    EXPECT_THAT(source->description(), HasSubstr("2 arrays as <f4 [2, 3] in "));
}

TEST_F(NpyCases, SkipsArraysThatDoNotFitTheModel) {
    write("a.npy", "(2, 3)", test::counting(6));
    write("b.npy", "(2, 2)", test::counting(4));
    write("c.npy", "(2, 3)", test::counting(5));
    folder.write("d.npy", "no array");
    folder.write("e.npy", test::npy("<f2", "(2, 3)", test::bytes_of(std::vector<std::uint16_t>(6, 0x3c00))));
    write("f.npy", "()", test::counting(1));
    write("g.npy", "(0, 3)", {});
    const auto source = make();
    EXPECT_THAT(skipped(*source, 1), HasSubstr("takes [2, 3]"));
    EXPECT_THAT(skipped(*source, 2), HasSubstr("truncated"));
    EXPECT_THAT(skipped(*source, 3), HasSubstr("not a valid .npy file"));
    EXPECT_EQ(row(*source, 4), std::vector<float>(6, 1)) << "half floats are widened";
    EXPECT_THAT(skipped(*source, 5), HasSubstr("takes [2, 3]"));
    EXPECT_THAT(skipped(*source, 6), HasSubstr("takes [2, 3]"));
    std::filesystem::remove(source->file(0));
    EXPECT_THAT(skipped(*source, 0), HasSubstr("a.npy"));
}

TEST_F(NpyCases, RefusesAFirstArrayThatDoesNotFit) {
    EXPECT_THROW(make(), ConfigError);
    write("a.npy", "(2, 2)", test::counting(4));
    EXPECT_THROW(make(), ConfigError);
}

struct OwnShapes : NpyCases {
    // "?": unreadable
    std::string shapes_of(std::vector<std::int64_t> declared = {}, bool are_pictures = false) {
        const auto names = arrays_in(config.input);
        found = std::make_unique<ItemShapes>(names);
        add_shapes(config.input, names.size(), declared, are_pictures, {}, *found);
        std::string text = shape_text(found->form().shape) + ":";
        for (std::uint64_t item = 0; item < found->items(); ++item)
            text += found->of(item).empty() ? " ?" : " " + shape_text(found->of(item));
        return text;
    }
    void write_bytes(const std::string& name, const std::string& shape, std::size_t bytes) {
        folder.write(name, test::npy("|u1", shape, std::string(bytes, '\1')));
    }

    std::unique_ptr<ItemShapes> found;
};

TEST_F(OwnShapes, MostArraysDecideWhatTheModelTakes) {
    write("a.npy", "(3, 2, 2)", test::counting(12));
    EXPECT_EQ(shapes_of(), "[?, ?, ?]: [3, 2, 2]") << "floats are the model's input";
    EXPECT_FALSE(found->form().is_picture);
    EXPECT_EQ(shapes_of({}, true), "[3, ?, ?]: [3, 2, 2]");
    write("b.npy", "(4, 2)", test::counting(8));
    EXPECT_EQ(shapes_of(), "[?, ?, ?]: [3, 2, 2] ?") << "the first of equally many";
    write("c.npy", "(1, 5)", test::counting(5));
    EXPECT_EQ(shapes_of(), "[?, ?]: ? [4, 2] [1, 5]");
    EXPECT_EQ(shapes_of({4, kVarying}), "[4, ?]: ? [4, 2] ?");
    EXPECT_THAT(found->first_fault(), AllOf(HasSubstr("a.npy: an array <f4 [3, 2, 2], and the model takes [4, ?]"),
                                            HasSubstr("Bring it to")));
}

TEST_F(OwnShapes, TheFirstOfEquallyManyDecides) {
    write("a.npy", "(4, 2)", test::counting(8));
    write("b.npy", "(3, 2, 2)", test::counting(12));
    EXPECT_EQ(shapes_of(), "[?, ?]: [4, 2] ?");
}

TEST_F(OwnShapes, MostArraysAreEightBitPictures) {
    write("a.npy", "(3, 2, 2)", test::counting(12));
    write_bytes("b.npy", "(2, 4, 3)", 24);
    write_bytes("c.npy", "(3, 5, 1)", 15);
    write_bytes("d.npy", "(2, 4, 4)", 32);
    write_bytes("e.npy", "(2, 2, 3)", 12);
    EXPECT_EQ(shapes_of(), "[3, ?, ?]: ? [3, 2, 4] [3, 5, 1] ? [3, 2, 2]");
    EXPECT_TRUE(found->form().has_pixels);
    EXPECT_THAT(found->first_fault(), HasSubstr("takes [3, ?, ?] or [?, ?, 3] of 8 bits"));
}

TEST_F(OwnShapes, AHeaderThatClaimsTooMuchIsRefusedByName) {
    write("a.npy", "(2, 3)", test::counting(6));
    for (const char* shape :
         {"(4, 3)", "(0, 3)", "(1099511627776, 16777216)", "(9223372036854775807, 2)", "(2, -3)",
          "(2, 99999999999999999999)", "(4294967296, 4294967296)", "()", "(1, 1, 1, 1, 1, 1, 2, 3)"}) {
        write("b.npy", shape, test::counting(6));
        EXPECT_EQ(shapes_of(), "[?, ?]: [2, 3] ?") << shape;
        EXPECT_THAT(found->first_fault(), HasSubstr("b.npy")) << shape;
        EXPECT_EQ(found->extremes().size(), 1U) << shape;
    }
    folder.write("b.npy", test::npy("<i8", "(2, 3)", test::bytes_of(std::vector<std::int64_t>(6))));
    EXPECT_EQ(shapes_of(), "[?, ?]: [2, 3] ?");
    EXPECT_THAT(found->first_fault(), HasSubstr("its elements are <i8"));
}

TEST_F(NpyCases, AFolderWithPicturesIsReadAsPictures) {
    EXPECT_FALSE(has_arrays_alone(config.input));
    EXPECT_FALSE(has_arrays_alone(config.input + "/nowhere"));
    EXPECT_THAT(arrays_in(config.input + "/nowhere"), IsEmpty());
    write("a.npy", "(2, 3)", test::counting(6));
    EXPECT_TRUE(has_arrays_alone(config.input));
    EXPECT_FALSE(has_arrays_alone(config.input + "/a.npy"));
    EXPECT_THAT(arrays_in(config.input), ElementsAre("a.npy"));
    folder.write("b.JPG", "a picture");
    EXPECT_FALSE(has_arrays_alone(config.input));
}

}  // namespace
}  // namespace offramp
