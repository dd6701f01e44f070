#include "common/app/images/jsonl_pictures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/images/picture_files.hpp"

namespace offramp {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Jsonl : ::testing::Test {
    JsonlPictures list(const std::string& text) { return JsonlPictures(folder.write("list.jsonl", text)); }

    static std::vector<std::string> keys(const PictureList& pictures) {
        std::vector<std::string> all;
        for (std::uint64_t i = 0; i < pictures.size(); ++i) all.emplace_back(pictures.key(i));
        return all;
    }

    // Why a line cannot be used, or empty.
    static std::string reason(const PictureList& pictures, std::uint64_t picture) {
        try {
            pictures.place(picture);
        } catch (const UnreadableItem& unreadable) {
            return unreadable.what();
        }
        return "";
    }
    std::string reason(const std::string& line) { return reason(list(line + "\n"), 0); }

    std::string refusal(const std::string& input, ErrorKind code) {
        return test::error_of<ConfigError>([&] { const JsonlPictures pictures(input); }, code);
    }

    TempFolder folder;
};

TEST_F(Jsonl, ReadsIdsUrisAndColumns) {
    const auto pictures = list(
        "{\"id\": \"chair 7\", \"uri\": \"photos/a.jpg\", \"price\": 9.5, \"label\": \"chaise \\u00e9\"}\n"
        "{\"uri\": \"/else/where.jpg\", \"id\": 12}\n"
        "{\"uri\": \"photos/b.JPG\", \"tags\": [1, {\"x\": null}]}\n");
    EXPECT_THAT(keys(pictures), ElementsAre("chair 7", "12", "photos/b"));
    EXPECT_EQ(pictures.place(0).path, folder / "photos/a.jpg");
    EXPECT_EQ(pictures.place(1).path, "/else/where.jpg");
    EXPECT_EQ(pictures.columns(0), "{\"label\":\"chaise \xc3\xa9\",\"price\":9.5}");
    EXPECT_EQ(pictures.columns(1), "{}");
    EXPECT_EQ(pictures.columns(2), "{\"tags\":[1,{\"x\":null}]}");
    EXPECT_EQ(pictures.origin(0), folder / "list.jsonl" + ":1 (" + folder / "photos/a.jpg" + ")");
    EXPECT_EQ(pictures.description(), "3 lines of " + folder / "list.jsonl");
}

TEST_F(Jsonl, IgnoresBlankLinesAndLineEndings) {
    const auto pictures = list("\xef\xbb\xbf{\"uri\":\"a.png\"}\r\n\r\n  \n{\"uri\":\"b.png\"}");
    EXPECT_THAT(keys(pictures), ElementsAre("a", "b"));
    EXPECT_EQ(pictures.place(0).path, folder / "a.png");
    EXPECT_EQ(pictures.place(1).path, folder / "b.png");
    EXPECT_EQ(pictures.origin(1), folder / "list.jsonl" + ":4 (" + folder / "b.png" + ")");
}

TEST_F(Jsonl, FileUrisArePaths) {
    const auto pictures = list(
        "{\"uri\":\"file:///data/a%20b.jpg\"}\n{\"uri\":\"file://localhost/"
        "c.jpg\"}\n{\"uri\":\"d%20e.jpg\"}\n{\"uri\":\"odd/a://b.jpg\"}\n");
    EXPECT_EQ(pictures.place(0).path, "/data/a b.jpg");
    EXPECT_EQ(pictures.place(1).path, "/c.jpg");
    EXPECT_EQ(pictures.place(2).path, folder / "d%20e.jpg");
    EXPECT_EQ(pictures.place(3).path, folder / "odd/a://b.jpg");
    EXPECT_EQ(reason("{\"uri\":\"https://example.com/a.jpg\"}"),
              "line 1: its \"uri\" has the scheme 'https'; only local files are supported");
    EXPECT_EQ(reason("{\"uri\":\"file://server/a.jpg\"}"),
              "line 1: its \"uri\" names another machine; only local files are supported");
}

TEST_F(Jsonl, TreatsBadLinesAsUnreadablePictures) {
    EXPECT_EQ(reason("{\"uri\": \"a.jpg\""), "line 1: not JSON: it breaks at byte 16");
    EXPECT_EQ(reason("photos/a.jpg"), "line 1: not JSON: it breaks at byte 1");
    EXPECT_EQ(reason("{\"uri\":\"\xff.jpg\"}"), "line 1: not JSON: it breaks at byte 9");
    EXPECT_EQ(reason("[\"a.jpg\"]"), "line 1: not a JSON object, but array");
    EXPECT_EQ(reason("{\"id\":\"a\"}"), "line 1: it has no \"uri\"");
    EXPECT_EQ(reason("{\"uri\":7}"), "line 1: its \"uri\" is not text");
    EXPECT_EQ(reason("{\"uri\":\"\"}"), "line 1: its \"uri\" is not text");
    EXPECT_EQ(reason("{\"uri\":\"a.jpg\\u0000\"}"), "line 1: its \"uri\" contains a NUL character");
    for (const char* const id : {"1.5", "null", "\"\"", "[]", "true"})
        EXPECT_EQ(reason(std::string("{\"uri\":\"a.jpg\",\"id\":") + id + "}"),
                  "line 1: its \"id\" is neither text nor a whole number");
}

// Deeper than any stack: copying and writing JSON recurses by level.
TEST_F(Jsonl, RefusesTooDeepNesting) {
    const auto nested = [](std::size_t levels) {
        return "{\"uri\":\"a.jpg\",\"v\":" + std::string(levels - 1, '[') + std::string(levels - 1, ']') + "}";
    };
    const auto objects = [](std::size_t levels) {
        std::string text = "{\"uri\":\"a.jpg\",\"v\":";
        for (std::size_t i = 1; i < levels; ++i) text += "{\"v\":";
        return text + "0" + std::string(levels, '}');
    };
    for (const std::size_t levels : {65U, 200'000U, 8'000'000U})
        for (const std::string& line : {nested(levels), nested(levels).substr(0, levels + 20)})
            EXPECT_EQ(reason(line), "line 1: nested deeper than 64 levels");
    for (const std::size_t levels : {65U, 200'000U})
        EXPECT_EQ(reason(objects(levels)), "line 1: nested deeper than 64 levels");
    const auto pictures = list(nested(200'000) + "\n" + nested(64) + "\n" + objects(64) + "\n");
    EXPECT_EQ(reason(pictures, 0), "line 1: nested deeper than 64 levels");
    EXPECT_EQ(reason(pictures, 1), "");
    EXPECT_EQ(pictures.columns(1), "{\"v\":" + std::string(63, '[') + std::string(63, ']') + "}");
    EXPECT_EQ(reason(pictures, 2), "");
}

// Brackets in a string are not levels, even after an escaped quote; nor are closed ones.
TEST_F(Jsonl, ReadsBracketsInsideStrings) {
    const std::string brackets(1000, '[');
    std::string flat;
    for (int i = 0; i < 1000; ++i) flat += ",[],{}";
    const std::string columns = "{\"" + brackets + "\":\"\\\"" + brackets + "\\\\\",\"v\":[0" + flat + "]}";
    const auto pictures = list("{\"uri\":\"a.jpg\"," + columns.substr(1) + "\n");
    EXPECT_EQ(reason(pictures, 0), "");
    EXPECT_EQ(pictures.columns(0), columns);
}

TEST_F(Jsonl, KeepsWholeNumbersBeyond64BitsAsTexts) {
    const std::string large = "123456789012345678901234567890";
    const auto pictures = list("{\"uri\":\"a.jpg\",\"id\":" + large + ",\"v\":[-" + large +
                               ",18446744073709551615,-9223372036854775808,18446744073709551616,1e20],\"text\":\"" +
                               large + "\\\"" + large + "\"}\n");
    EXPECT_EQ(reason(pictures, 0), "");
    EXPECT_THAT(keys(pictures), ElementsAre(large));
    EXPECT_EQ(pictures.columns(0), "{\"text\":\"" + large + "\\\"" + large + "\",\"v\":[\"-" + large +
                                       "\",18446744073709551615,-9223372036854775808,\"18446744073709551616\",1e+20]}");
}

TEST_F(Jsonl, RefusesNumbersBeyondADouble) {
    EXPECT_EQ(reason("{\"uri\":\"a.jpg\",\"v\":1e999}"), "line 1: a number beyond the range of a double: '1e999'");
    EXPECT_EQ(reason("{\"uri\":\"a.jpg\",\"v\":[-1e999]}"), "line 1: a number beyond the range of a double: '-1e999'");
    EXPECT_EQ(reason("{\"uri\":\"a.jpg\",\"v\":" + std::string(400, '9') + ".0}"),
              "line 1: a number beyond the range of a double: '" + std::string(40, '9') + "...'");
    EXPECT_EQ(reason("{\"uri\":\"a.jpg\",\"id\":1e999}"), "line 1: a number beyond the range of a double: '1e999'");
    const auto pictures =
        list("{\"uri\":\"a.jpg\"}\n{\"uri\":\"b.jpg\",\"v\":1e999}\n{\"uri\":\"c.jpg\",\"v\":1e-999}\n");
    EXPECT_THAT(keys(pictures), ElementsAre("a", "line-2", "c"));
    EXPECT_EQ(pictures.description(), "3 lines of " + folder / "list.jsonl" + ", 1 of them unusable");
    EXPECT_EQ(pictures.columns(2), "{\"v\":0.0}");
}

TEST_F(Jsonl, CountsABadLineInItsPlace) {
    const auto pictures = list("{\"id\":\"a\",\"uri\":\"1.jpg\"}\n\nnonsense\n{\"id\":\"b\",\"uri\":\"2.jpg\"}\n");
    EXPECT_THAT(keys(pictures), ElementsAre("a", "line-3", "b"));
    EXPECT_EQ(reason(pictures, 1), "line 3: not JSON: it breaks at byte 2");
    EXPECT_EQ(pictures.origin(1), folder / "list.jsonl" + ":3");
    EXPECT_THROW(pictures.columns(1), UnreadableItem);
    EXPECT_EQ(reason(pictures, 2), "");
    EXPECT_EQ(pictures.description(), "3 lines of " + folder / "list.jsonl" + ", 1 of them unusable");
}

TEST_F(Jsonl, RefusesTheSecondOfTwoEqualIds) {
    const auto pictures = list(
        "{\"id\":\"x\",\"uri\":\"1.jpg\"}\n{\"id\":\"x\",\"uri\":\"2.jpg\"}\n{\"id\":\"line-2\",\"uri\":\"3.jpg\"}\n");
    EXPECT_EQ(reason(pictures, 1), "line 2: its id 'x' is also the id of line 1");
    EXPECT_EQ(pictures.key(0), "x");
    EXPECT_EQ(reason(pictures, 0), "");
    EXPECT_THAT(keys(pictures), ElementsAre("x", "line-2", "line-2-2"));  // unique with any ids
}

TEST_F(Jsonl, IdsBecomeNamesBelowTheOutput) {
    const auto pictures = list(
        "{\"id\":\"../../etc/passwd\",\"uri\":\"1.jpg\"}\n{\"id\":\"/root/a.jpg\",\"uri\":\"2.jpg\"}\n"
        "{\"id\":\"etc/passwd\",\"uri\":\"3.jpg\"}\n{\"id\":\"a\\nb\",\"uri\":\"4.jpg\"}\n{\"id\":\"..\",\"uri\":\"../"
        "../5.jpg\"}\n");
    EXPECT_THAT(keys(pictures), ElementsAre("etc/passwd", "root/a.jpg", "etc/passwd-2", "a_b", "item"));
    for (std::uint64_t i = 0; i < pictures.size(); ++i) EXPECT_EQ(reason(pictures, i), "");
}

TEST_F(Jsonl, AcceptsARepeatedUri) {
    EXPECT_THAT(keys(list("{\"uri\":\"a.jpg\"}\n{\"uri\":\"a.jpg\"}\n")), ElementsAre("a", "a-2"));
}

TEST_F(Jsonl, HashesColumnsWhereThereAreSome) {
    const auto pictures = list(
        "{\"uri\":\"a.jpg\",\"x\":1,\"y\":2}\n{\"y\":2,\"x\":1,\"uri\":\"b.jpg\"}\n{\"uri\":\"a.jpg\",\"x\":2,\"y\":2}"
        "\n{\"uri\":\"a.jpg\"}\n");
    EXPECT_EQ(pictures.columns_hash(0), pictures.columns_hash(1));
    EXPECT_NE(pictures.columns_hash(0), pictures.columns_hash(2));
    EXPECT_NE(pictures.columns_hash(0), 0U);
    EXPECT_EQ(pictures.columns_hash(3), 0U);
}

TEST_F(Jsonl, ReadsLinesLongerThanABlock) {
    const std::string value(3 << 20, 'v');
    const auto pictures =
        list("{\"uri\":\"a.jpg\"}\n{\"uri\":\"b.jpg\",\"text\":\"" + value + "\"}\n{\"uri\":\"c.jpg\"}\n");
    EXPECT_THAT(keys(pictures), ElementsAre("a", "b", "c"));
    EXPECT_EQ(pictures.columns(1), "{\"text\":\"" + value + "\"}");
    EXPECT_EQ(pictures.place(2).path, folder / "c.jpg");
}

TEST_F(Jsonl, RefusesAnEndlessLineInBoundedMemory) {
    const auto pictures = list("{\"uri\":\"a.jpg\"}\n" + std::string(40 << 20, ' ') + "x\n{\"uri\":\"c.jpg\"}\n");
    EXPECT_EQ(reason(pictures, 1), "line 2: longer than 16 MiB");
    EXPECT_EQ(pictures.place(2).path, folder / "c.jpg");
}

TEST_F(Jsonl, DetectsAManifestThatChanges) {
    const auto pictures = list("{\"uri\":\"a.jpg\"}\n{\"uri\":\"b.jpg\"}\n");
    folder.write("list.jsonl", "{\"uri\":5      }\n");
    EXPECT_EQ(reason(pictures, 0), "line 1 was changed since the manifest was listed");
    EXPECT_THAT(reason(pictures, 1), HasSubstr("line 2 is missing: the manifest became shorter"));
}

TEST_F(Jsonl, RefusesOtherFiles) {
    EXPECT_THAT(refusal("", ErrorKind::NoInput), HasSubstr("none is given"));
    EXPECT_THAT(refusal(folder / "none.jsonl", ErrorKind::NoInput), HasSubstr("No such file"));
    EXPECT_THAT(refusal(folder.write("e.jsonl", "\n\n"), ErrorKind::NoInput), HasSubstr("the manifest has no lines"));
    EXPECT_THAT(refusal(folder.path().string(), ErrorKind::BadInput),
                AllOf(HasSubstr("a folder, not a file"), HasSubstr("--source images")));
    EXPECT_THAT(refusal("/proc/self/mem", ErrorKind::NoInput),
                HasSubstr("'/proc/self/mem': cannot be read: Input/output error"));
    ASSERT_EQ(::mkfifo((folder / "p.jsonl").c_str(), 0644), 0);
    EXPECT_THAT(refusal(folder / "p.jsonl", ErrorKind::BadInput), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace offramp
