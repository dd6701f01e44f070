#include "producer/runner/checkpoint/checkpoint_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "common/base/error.hpp"
#include "common/wire/tensor_spec.hpp"
#include "tests/contract/processors/processor_world.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

using test::ScratchFolder;

Checkpoint of_run(std::uint64_t items = 1000) {
    return {.run_id = "the-run",
            .pid = 42,
            .before = 7,
            .identity = {{{"items", std::to_string(items)}, {"--batch", "8"}}},
            .named = true,
            .done = {},
            .ignored_lines = 0};
}

std::string lines(std::vector<ItemRange> ranges) { return done_lines(ranges); }

TEST(Checkpoint, ReadsBackWhatItWrote) {
    const std::string text =
        of_run().header_line() + lines({{0, 8}}) + lines({{16, 24}, {8, 16}}) + lines({{990, 1000}});
    const Checkpoint checkpoint = parse_checkpoint(text, "file");
    EXPECT_EQ(checkpoint.run_id, "the-run");
    EXPECT_EQ(checkpoint.pid, 42U);
    EXPECT_EQ(checkpoint.before, 7U);
    EXPECT_TRUE(checkpoint.named);
    EXPECT_EQ(checkpoint.identity, of_run().identity);
    EXPECT_EQ(checkpoint.items(), 1000U);
    EXPECT_EQ(checkpoint.done.list(), (std::vector<ItemRange>{{0, 24}, {990, 1000}}));
    EXPECT_EQ(checkpoint.ignored_lines, 0U);
}

TEST(Checkpoint, ItsBytesAreFrozen) {
    EXPECT_EQ(
        of_run().header_line(),
        R"({"xxh3":"13c44af79b39227d","before":7,"checkpoint":2,"identity":{"--batch":"8","items":"1000"},"named":true,"pid":42,"run":"the-run"})"
        "\n");
    EXPECT_EQ(lines({{0, 8}, {16, 24}}), R"({"xxh3":"708098c17d080d87","done":[[0,8],[16,24]]})"
                                         "\n");
}

TEST(Checkpoint, ShapesOfItemsAreCompleteOrAbsent) {
    Checkpoint written = of_run(10000);
    written.shapes.resize(10000);
    for (std::int64_t i = 0; i < 9000; ++i) written.shapes[static_cast<std::size_t>(i)] = {1, i, 8};
    const std::string shapes = shapes_lines(written.shapes);
    EXPECT_EQ(std::count(shapes.begin(), shapes.end(), '\n'), 3);
    const std::string text = written.header_line() + shapes + lines({{0, 8}});
    EXPECT_EQ(parse_checkpoint(text, "file").shapes, written.shapes);
    EXPECT_EQ(parse_checkpoint(text, "file").ignored_lines, 0U);
    const std::string torn = written.header_line() + shapes.substr(shapes.find('\n') + 1);
    EXPECT_TRUE(parse_checkpoint(torn, "file").shapes.empty());
    EXPECT_TRUE(parse_checkpoint(of_run(9999).header_line() + shapes, "file").shapes.empty());
    for (const char* line : {R"("from":0,"shapes":[["a"]]})", R"("from":0,"shapes":{"a":1}})", R"("shapes":[[1]]})"})
        EXPECT_EQ(parse_checkpoint(of_run(1).header_line() + sealed_line(line), "file").ignored_lines, 1U) << line;
    EXPECT_EQ(shapes_lines(std::vector<std::vector<std::int64_t>>{{1, 6}, {}}),
              R"({"xxh3":"533c62e7bceb9bfc","from":0,"shapes":[[1,6],[]]})"
              "\n");
}

TEST(Checkpoint, HasTheFormOfArrays) {
    Checkpoint written = of_run();
    EXPECT_EQ(parse_checkpoint(written.whole_text(), "file").form, std::nullopt);
    written.form = {.shape = {3, kVarying, kVarying}, .is_picture = true, .has_pixels = true};
    EXPECT_EQ(parse_checkpoint(written.whole_text(), "file").form, written.form);
    written.form = {.shape = {kVarying, 2}};
    EXPECT_EQ(parse_checkpoint(written.whole_text(), "file").form, written.form);
    for (const char* line : {R"("form":3})", R"("form":{"shape":["a"],"picture":true,"pixels":true}})"}) {
        const Checkpoint damaged = parse_checkpoint(of_run().header_line() + sealed_line(line), "file");
        EXPECT_EQ(damaged.form, std::nullopt) << line;
        EXPECT_EQ(damaged.ignored_lines, 1U) << line;
    }
}

TEST(Checkpoint, RecordsThatItsRunEnded) {
    const Checkpoint read = parse_checkpoint(of_run().header_line() + lines({{0, 8}}) + ended_line(), "file");
    EXPECT_TRUE(read.ended);
    EXPECT_EQ(read.ignored_lines, 0U);
    EXPECT_FALSE(parse_checkpoint(of_run().header_line() + ended_line().substr(0, 30), "file").ended) << "truncated";
}

// A truncation anywhere loses only the last line.
RC_GTEST_PROP(Checkpoint, ATornTailCostsAtMostTheLastLine, ()) {
    std::string text = of_run().header_line();
    const std::size_t header = text.size();
    const auto count = *rc::gen::inRange<std::uint64_t>(1, 8);
    for (std::uint64_t i = 0; i < count; ++i) text += lines({{i * 10, i * 10 + 5}});
    const auto kept = *rc::gen::inRange<std::size_t>(header, text.size() + 1);
    const Checkpoint checkpoint = parse_checkpoint(std::string_view(text).substr(0, kept), "file");
    const std::size_t whole =
        static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(kept), '\n')) - 1;
    // A line that lacks only its line end is complete, too.
    RC_ASSERT(checkpoint.done.ranges() == whole || checkpoint.done.ranges() == whole + 1);
    RC_ASSERT(checkpoint.ignored_lines <= 1);
    for (const ItemRange& range : checkpoint.done.list())
        RC_ASSERT(range.begin % 10 == 0 && range.end == range.begin + 5);
}

// A changed byte anywhere after the header: its line is ignored and its items redone, and no other item counts as done.
RC_GTEST_PROP(Checkpoint, ADamagedLineReportsNothing, ()) {
    std::string text = of_run().header_line();
    const std::size_t header = text.size();
    for (std::uint64_t i = 0; i < 6; ++i) text += lines({{i * 10, i * 10 + 5}});
    const auto at = *rc::gen::inRange<std::size_t>(header, text.size());
    const auto other = *rc::gen::suchThat(rc::gen::arbitrary<char>(), [&](char c) { return c != text[at]; });
    text[at] = other;
    const Checkpoint checkpoint = parse_checkpoint(text, "file");
    RC_ASSERT(checkpoint.done.ranges() >= 4U);
    for (const ItemRange& range : checkpoint.done.list())
        RC_ASSERT(range.begin % 10 == 0 && range.end == range.begin + 5);
}

TEST(Checkpoint, IgnoresRangesBeyondTheSource) {
    for (const std::vector<ItemRange>& bad : {std::vector<ItemRange>{{0, 5}, {996, 1001}}, {{7, 7}}, {{9, 3}}}) {
        const Checkpoint checkpoint = parse_checkpoint(of_run().header_line() + lines(bad) + lines({{20, 21}}), "file");
        EXPECT_EQ(checkpoint.done.list(), (std::vector<ItemRange>{{20, 21}}));
        EXPECT_EQ(checkpoint.ignored_lines, 1U);
    }
}

TEST(Checkpoint, WritesManyRangesInSeveralLines) {
    std::vector<ItemRange> ranges;
    for (std::uint64_t i = 0; i < 2500; ++i) ranges.push_back({i * 2, i * 2 + 1});
    const std::string text = lines(ranges);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
    EXPECT_EQ(parse_checkpoint(of_run(5000).header_line() + text, "file").done.list(), ranges);
    EXPECT_EQ(lines({}), "");
}

TEST(Checkpoint, RefusesOtherFilesByName) {
    std::string other_version = of_run().header_line();
    other_version.replace(other_version.find("\"checkpoint\":2"), 14, "\"checkpoint\":1");
    for (const std::string& text :
         {std::string(), std::string("\n"), std::string("not a checkpoint\n"), lines({{0, 5}}), other_version}) {
        EXPECT_THAT(test::error_of([&] { parse_checkpoint(text, "/out/.offramp-checkpoint"); }, ErrorKind::BadInput),
                    testing::HasSubstr("/out/.offramp-checkpoint"))
            << text;
    }
}

TEST(Checkpoint, AMissingFileIsNoCheckpoint) {
    const ScratchFolder folder;
    EXPECT_FALSE(read_checkpoint(folder.path() + "/none"));
    std::ofstream(folder.path() + "/real") << of_run().header_line();
    EXPECT_TRUE(read_checkpoint(folder.path() + "/real"));
    std::filesystem::create_symlink(folder.path() + "/real", folder.path() + "/link");
    EXPECT_THROW(read_checkpoint(folder.path() + "/link"), SystemError);
    ASSERT_EQ(::mkfifo((folder.path() + "/pipe").c_str(), 0600), 0);
    EXPECT_THROW(read_checkpoint(folder.path() + "/pipe"), SystemError) << "it does not wait for a writer";
}

}  // namespace
}  // namespace offramp
