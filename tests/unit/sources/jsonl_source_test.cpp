#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/app/images/unreadable_item.hpp"
#include "producer/runner/sources/source_items.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/sources/making.hpp"

namespace offramp {
namespace {

using test::make_source;
using test::picture_input;
using ::testing::HasSubstr;

constexpr ImageSize kSize{40, 24};

struct JsonlSource : ::testing::Test {
    JsonlSource() {
        for (unsigned i = 0; i < 4; ++i)
            folder.write("photos/" + std::to_string(i) + ".png", encode_png(kSize, gradient(kSize, i)));
    }

    std::unique_ptr<BatchSource> make(const std::string& text) {
        config.input = folder.write("list.jsonl", text);
        return make_source("jsonl", config, picture_input(kSize), true);
    }

    TempFolder folder;
    RunConfig config;
};

TEST_F(JsonlSource, ReadsTheManifestsPicturesInItsOrder) {
    const auto source = make("{\"id\":\"c\",\"uri\":\"photos/2.png\"}\n{\"id\":\"a\",\"uri\":\"photos/0.png\"}\n");
    ASSERT_EQ(source->items(), 2U);
    EXPECT_EQ(source->key(0), "c");
    EXPECT_EQ(test::row_of(*source, 0, kSize), gradient(kSize, 2));
    EXPECT_EQ(test::row_of(*source, 1, kSize), gradient(kSize, 0));
    EXPECT_EQ(source->max_key_bytes(), 1U);
    EXPECT_EQ(source->description(), "jsonl: 2 lines of " + folder / "list.jsonl");
}

TEST_F(JsonlSource, ReportsAMissingFileWithItsLine) {
    const auto source = make("{\"uri\":\"photos/0.png\"}\n{\"uri\":\"photos/9.png\"}\n");
    EXPECT_EQ(source->origin(1), folder / "list.jsonl" + ":2 (" + folder / "photos/9.png" + ")");
    EXPECT_THAT(test::error_of<UnreadableItem>([&] { test::row_of(*source, 1, kSize); }), HasSubstr("No such file"));
}

TEST_F(JsonlSource, TheFingerprintIncludesColumnsNotPaths) {
    const auto print = [&](const std::string& lines) { return source_fingerprint(*make(lines)); };
    const std::string previous =
        print("{\"id\":1,\"uri\":\"photos/0.png\",\"x\":1}\n{\"id\":2,\"uri\":\"photos/1.png\",\"x\":2}\n");
    EXPECT_EQ(print("{\"id\":1,\"uri\":\"moved/0.png\",\"x\":1}\n{\"id\":2,\"uri\":\"photos/1.png\",\"x\":2}\n"),
              previous);
    EXPECT_NE(print("{\"id\":1,\"uri\":\"photos/0.png\",\"x\":1}\n{\"id\":2,\"uri\":\"photos/1.png\",\"x\":3}\n"),
              previous);
    EXPECT_NE(print("{\"id\":1,\"uri\":\"photos/0.png\",\"x\":1}\n{\"id\":3,\"uri\":\"photos/1.png\",\"x\":2}\n"),
              previous);
}

}  // namespace
}  // namespace offramp
