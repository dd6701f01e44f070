#include "common/app/texts/jsonl_texts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "common/json/json_text.hpp"
#include "tests/support/error_of.hpp"
#include "tests/unit/images/picture_files.hpp"

namespace offramp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct JsonlTextsTest : ::testing::Test {
    JsonlTexts made(const std::string& bytes) {
        config.source = "jsonl-text";
        config.input = folder.write("texts.jsonl", bytes);
        return JsonlTexts(config);
    }

    std::string refusal(const std::string& bytes, ErrorKind kind = ErrorKind::BadInput) {
        return test::error_of<ConfigError>([&] { made(bytes); }, kind);
    }

    TempFolder folder;
    InputSettings config;
};

TEST_F(JsonlTextsTest, ReadsIdTextAndColumns) {
    const JsonlTexts texts = made(
        "\xef\xbb\xbf{\"id\": \"a/b.jpg\", \"text\": \"one\\ntwo\", \"z\": 1, \"a\": [null]}\r\n\n"
        "{\"text\": \"\", \"id\": 12345678901234567890123}");
    ASSERT_EQ(texts.size(), 2U);
    EXPECT_EQ(texts.key(0), "a/b.jpg");
    EXPECT_EQ(texts.text(0), "one\ntwo");
    EXPECT_EQ(texts.beside(0).columns, R"({"a":[null],"z":1})");
    EXPECT_EQ(texts.key(1), "12345678901234567890123") << "not rounded as a double";
    EXPECT_EQ(texts.text(1), "");
    EXPECT_EQ(texts.beside(1).columns, "{}");
    EXPECT_THAT(texts.origin(1), HasSubstr("texts.jsonl:3")) << "blank lines are counted as lines";
}

TEST_F(JsonlTextsTest, SelectsColumnsByName) {
    config.id_column = "key";
    config.text_column = "body";
    config.columns = "b,id";
    const JsonlTexts texts = made(
        "{\"key\": 1, \"body\": \"x\", \"id\": 7, \"a\": 1, \"b\": 2}\n{\"key\": 2, \"body\": \"y\", \"a\": "
        "\"other\"}\n");
    EXPECT_EQ(texts.beside(0).columns, R"({"b":2,"id":7})") << "other columns may have any type";
    EXPECT_EQ(texts.beside(1).columns, "{}");
}

// Keys are made valid as file names; the id is the original one.
TEST_F(JsonlTextsTest, KeepsAnIdWithAnyKey) {
    const std::vector<std::string> ids{"https://example.org/a?b=1#c", "../../etc/passwd", "/abs//x", "a\tb\u202e", "7"};
    std::string lines;
    for (const std::string& id : ids) lines += json_text(nlohmann::json{{"id", id}, {"text", "x"}}) + "\n";
    const JsonlTexts texts = made(lines);
    bool one_is_another = false;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        EXPECT_EQ(texts.beside(i).id, ids[i]);
        one_is_another = one_is_another || texts.key(i) != ids[i];
    }
    EXPECT_TRUE(one_is_another);
    EXPECT_EQ(made(R"({"id": 12345678901234567890123, "text": ""})").beside(0).id, "12345678901234567890123");
}

TEST_F(JsonlTextsTest, AHashDistinguishesIdsTextsAndColumns) {
    const auto hash = [&](const std::string& line) { return made(line).hash(0); };
    const std::uint64_t plain = hash(R"({"id": "a", "text": "x", "n": 1})");
    EXPECT_EQ(plain, hash(R"({"n": 1, "text":"x", "id": "a"})"));
    EXPECT_NE(plain, hash(R"({"id": "./a", "text": "x", "n": 1})")) << "the keys are the same";
    EXPECT_NE(plain, hash(R"({"id": "a", "text": "y", "n": 1})"));
    EXPECT_NE(plain, hash(R"({"id": "a", "text": "x", "n": 2})"));
}

TEST_F(JsonlTextsTest, ARefusalNamesFileLineValueAndRemedy) {
    const std::string good = "{\"id\": \"a\", \"text\": \"x\"}\n\n";
    for (const auto& [line, found, remedy] : std::vector<std::tuple<std::string, std::string, std::string>>{
             {R"({"id": "a", "text": "y"})", "its id 'a' is also the id of line 1", "give each row its own"},
             {R"({"text": "y"})", "it has no \"id\"", "--id-column"},
             {R"({"id": "", "text": "y"})", "is empty", "--id-column"},
             {R"({"id": true, "text": "y"})", "true or false: true", "whole numbers"},
             {R"({"id": "b", "text": {"a": 1}})", "an object: {\"a\":1}", "--text-column"},
             {R"({"id": "b", "text": "y)", "not JSON: it breaks at byte 23. Give", "one JSON object per line"},
             {R"({"id": "b", "id": "c", "text": "y"})", "its \"id\" appears more than once", "its own name"},
             {R"({"id": "b", "text": "y", "\u0074ext": "z"})", "its \"text\" appears more than once", "its own name"},
             {R"({"n": 1, "id": "b", "text": "y", "n": 1})", "its \"n\" appears more than once", "its own name"},
             {R"({"id": "b", "text": "y", "n": NaN})", "breaks at byte 31, since JSON has no NaN", "write null"},
             {R"({"id": "b", "text": "y", "n": [-Infinity]})", "since JSON has no Infinity", "allow_nan=False"},
             {R"({"id": "b", "text": "y\ud83d"})", "half of a surrogate pair (\\ud800 to", "write U+FFFD"},
             {R"({"id": "b", "text": "y\ude00"})", "half of a surrogate pair (\\ud800 to", "write U+FFFD"},
             {"{\"id\": \"b\", \"text\": \"\xc3\"}", "it is not UTF-8 from byte 22 on", "iconv"}})
        EXPECT_THAT(refusal(good + line),
                    AllOf(HasSubstr("texts.jsonl': line 3: "), HasSubstr(found), HasSubstr(remedy)));
    EXPECT_THAT(refusal("", ErrorKind::NoInput), HasSubstr("no lines"));
    config.columns = "b,text";
    EXPECT_THAT(refusal(good, ErrorKind::Usage), HasSubstr("already included"));
}

// With quadratic time, it would take minutes.
TEST_F(JsonlTextsTest, FindsARepeatedNameBesideALongListQuickly) {
    std::string line = R"({"id": "b", "text": "y", "list": [{})";
    for (int i = 0; i < 1'000'000; ++i) line += ",{}";
    EXPECT_THAT(refusal(line + R"(], "i\u0064": "c"})"), HasSubstr("its \"id\" appears more than once"));
}

TEST_F(JsonlTextsTest, AllowsRepeatedNamesWithinAColumn) {
    const JsonlTexts texts = made(
        R"({"id": "{\"id\": :,", "text": ":", "a": {"text": 1, "id": [{"id": 2}], "b": 3, "b": 4}, "": "", ":": 5})");
    EXPECT_EQ(texts.beside(0).columns, R"({"":"",":":5,"a":{"b":4,"id":[{"id":2}],"text":1}})");
}

TEST_F(JsonlTextsTest, ValuesInListsHaveOneTypeToo) {
    const auto lists = [](const std::vector<std::string>& values) {
        std::string lines;
        for (std::size_t i = 0; i < values.size(); ++i)
            lines += R"({"id": )" + std::to_string(i) + R"(, "text": "", "c": )" + values[i] + "}\n";
        return lines;
    };
    for (const auto& [values, found] : std::vector<std::pair<std::vector<std::string>, std::string>>{
             {{R"(["a"])", "[1]"},
              R"(line 2: its "c" is a list of numbers ([1]), and in line 1 it is a list of texts)"},
             {{"[]", "[null]", "[true]", "[[]]"}, R"(line 4: its "c" is a list of lists ([[]]), and in line 3 it is)"},
             {{"[{}]", R"([{}, "a"])"},
              R"(is a list of several types ([{},"a"]), and in line 1 it is a list of objects)"},
             {{"[1]", "1"}, R"(is a number (1), and in line 1 it is a list of numbers)"}})
        EXPECT_THAT(refusal(lists(values)), AllOf(HasSubstr(found), HasSubstr("values of one type")));
    EXPECT_EQ(made(lists({"[]", R"(["cat", 0.9])", "[null]", "null", R"([1, "dog"])", "[]"})).size(), 6U);
}

TEST_F(JsonlTextsTest, ATenMegabyteTextIsUnreadable) {
    std::string text;
    text.resize(10'000'000, 'x');
    const JsonlTexts texts = made("{\"id\": 1, \"text\": \"" + text + "\", \"n\": 1}\n");
    EXPECT_THROW(texts.text(0), UnreadableItem);
    EXPECT_EQ(texts.beside(0).columns, R"({"n":1})");
}

TEST_F(JsonlTextsTest, ATruncatedFileIsAnUnreadableText) {
    const JsonlTexts texts = made("{\"id\": 1, \"text\": \"one\"}\n{\"id\": 2, \"text\": \"two\"}\n");
    std::filesystem::resize_file(config.input, 30);
    EXPECT_EQ(texts.text(0), "one");
    EXPECT_THROW(texts.text(1), UnreadableItem);
}

TEST_F(JsonlTextsTest, ARewrittenRowIsUnreadable) {
    const std::string before =
        "{\"id\": \"a\", \"text\": \"one\", \"n\": 1}\n{\"id\": \"b\", \"text\": \"two\", \"n\": 2}\n";
    const JsonlTexts texts = made(before);
    for (const auto& [old, other] :
         {std::pair<std::string, std::string>{"\"two\"", "\"six\""}, {"\"b\"", "\"c\""}, {"\"n\": 2", "\"n\": 3"}}) {
        std::string after = before;
        after.replace(after.find(old), old.size(), other);
        folder.write("texts.jsonl", after);
        EXPECT_EQ(texts.text(0), "one");
        const auto was_changed =
            ::testing::ThrowsMessage<UnreadableItem>(HasSubstr("the row was changed since it was listed"));
        EXPECT_THAT([&] { (void)texts.text(1); }, was_changed) << after;
        EXPECT_THAT([&] { (void)texts.beside(1).columns; }, was_changed) << after;
    }
    folder.write("texts.jsonl", before);
    EXPECT_EQ(texts.text(1), "two") << "as it was listed";
}

RC_GTEST_FIXTURE_PROP(JsonlTextsTest, WhatIsWrittenIsReadWhereverLinesEnd, ()) {
    const auto texts =
        *rc::gen::container<std::vector<std::string>>(rc::gen::container<std::string>(rc::gen::inRange<char>(0, 127)));
    RC_PRE(!texts.empty());
    std::string file;
    for (std::size_t i = 0; i < texts.size(); ++i) {
        for (auto blanks = *rc::gen::inRange(0, 3); blanks > 0; --blanks) file += " \r\n";
        file += json_text(nlohmann::json{{"id", i}, {"text", texts[i]}, {"n", i * 2}}) + "\n";
    }
    const JsonlTexts read = made(file);
    RC_ASSERT(read.size() == texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
        RC_ASSERT(read.key(i) == std::to_string(i));
        RC_ASSERT(read.text(i) == texts[i]);
        RC_ASSERT(read.beside(i).columns == "{\"n\":" + std::to_string(i * 2) + "}");
    }
}

}  // namespace
}  // namespace offramp
