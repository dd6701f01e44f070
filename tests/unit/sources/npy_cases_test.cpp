#include "producer/runner/sources/npy_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
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
        try {
            (void)row(source, item);
        } catch (const UnreadableItem& problem) {
            return problem.what();
        }
        return "it was read";
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
