#include "common/app/settings/toml.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include "common/base/error.hpp"
#include "common/base/utf8.hpp"
#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

using testing::HasSubstr;

TomlEntry only(const std::string& text) {
    const auto entries = read_toml(text, "f");
    EXPECT_EQ(entries.size(), 1U) << text;
    return entries.empty() ? TomlEntry{} : entries.front();
}

TEST(Toml, ReadsEveryKindOfValue) {
    const struct {
        const char* value;
        TomlType type;
        const char* text;
    } cases[] = {
        {R"("a # b, c = [d]")", TomlType::String, "a # b, c = [d]"},
        {R"("\b\t\n\f\r\"\\\u00e9\U0001F600")", TomlType::String, "\b\t\n\f\r\"\\\u00e9\U0001F600"},
        {R"('C:\no "escape"')", TomlType::String, R"(C:\no "escape")"},
        {R"("")", TomlType::String, ""},
        {"0", TomlType::Integer, "0"},
        {"+17", TomlType::Integer, "17"},
        {"-17", TomlType::Integer, "-17"},
        {"1_000_000", TomlType::Integer, "1000000"},
        {"0xFf", TomlType::Integer, "255"},
        {"0o17", TomlType::Integer, "15"},
        {"0b101", TomlType::Integer, "5"},
        {"1.5", TomlType::Float, "1.5"},
        {"-0.25", TomlType::Float, "-0.25"},
        {"6.02e+23", TomlType::Float, "6.02e+23"},
        {"1e3", TomlType::Float, "1000.0"},
        {"inf", TomlType::Float, "inf"},
        {"true", TomlType::Boolean, "true"},
        {"false", TomlType::Boolean, "false"},
        {"\"\"\"\nof\ntwo lines\"\"\"", TomlType::String, "of\ntwo lines"},
        {"9223372036854775807", TomlType::Integer, "9223372036854775807"},
    };
    for (const auto& one : cases) {
        const TomlEntry entry = only(std::string("key=") + one.value + "# comment");
        EXPECT_EQ(entry.key, "key");
        EXPECT_EQ(entry.type, one.type) << one.value;
        EXPECT_EQ(entry.text, one.text) << one.value;
    }
}

TEST(Toml, ReadsLinesKeysAndComments) {
    const auto entries = read_toml("# first\r\n\r\n  a-b_1 =  1 \t# one\n\"quo ted\" = 2\n'lit'=3", "f");
    ASSERT_EQ(entries.size(), 3U);
    EXPECT_EQ(entries[0].key, "a-b_1");
    EXPECT_EQ(entries[0].line, 3U);
    EXPECT_EQ(entries[1].key, "quo ted");
    EXPECT_EQ(entries[2].key, "lit");
    EXPECT_EQ(entries[2].line, 5U);
}

TEST(Toml, RefusesUnsupportedSyntaxAndReportsWhere) {
    const struct {
        const char* text;
        const char* expected;
    } cases[] = {
        {"\n[table]", "f:2: 'table' is an unknown table. All settings belong at the top level: key = value"},
        {"\n[[table]]", "f:2: 'table' is an unknown table"},
        {"a.b = 1", "f:1: 'a' is an unknown table"},
        {"a = {b = 1}", "f:1: 'a' is an unknown table"},
        {"a = [1, 2]", "f:1: 'a' is an array. A setting has one value: a string in quotes, a number, true or false"},
        {"a = 1979-05-27", "f:1: 'a' is a date or a time"},
        {"b = 1\n\na = 07:32:00", "f:3: 'a' is a date or a time"},
        {"z = [1]\na = [2]", "f:1: 'z' is an array"},
        {"a", "f:1: this is not TOML: "},
        {"a =", "f:1: this is not TOML: "},
        {"a = # none", "f:1: this is not TOML: "},
        {"= 1", "f:1: this is not TOML: "},
        {"a = 1\nb = 2\na = 3", "f:3: this is not TOML: Error while parsing key-value pair: cannot redefine existing"},
        {"a = word",
         "f:1: this is not TOML: Error while parsing value: could not determine value type. "
         "Write: key = value, with strings in quotes"},
        {"a = 01", "f:1: this is not TOML: "},
        {"a = 1__0", "f:1: this is not TOML: "},
        {"a = 1.", "f:1: this is not TOML: "},
        {"a = .5", "f:1: this is not TOML: "},
        {"a = 0x", "f:1: this is not TOML: "},
        {"a = +0x1", "f:1: this is not TOML: "},
        {"a = --1", "f:1: this is not TOML: "},
        {"a = infinity", "f:1: this is not TOML: "},
        {"a = 9223372036854775808", "f:1: this is not TOML: "},
        {"a = 1e999", "f:1: this is not TOML: "},
        {"a = 1 2", "f:1: this is not TOML: "},
        {"a = \"x", "f:1: this is not TOML: "},
        {"a = 'x", "f:1: this is not TOML: "},
        {R"(a = "\x")", "f:1: this is not TOML: "},
        {R"(a = "\u12")", "f:1: this is not TOML: "},
        {R"(a = "\ud800")", "f:1: this is not TOML: "},
        {R"(a = "\U00110000")", "f:1: this is not TOML: "},
        {"a = \"\x01\"", "f:1: this is not TOML: "},
        {"b = 1\na = \"\xff\"", "f:2: this is not TOML: "},
        {"a = \"\xc0\x80\"", "f:1: this is not TOML: "},
    };
    for (const auto& one : cases) {
        EXPECT_THAT(test::error_of<ConfigError>([&] { read_toml(one.text, "f"); }, ErrorKind::Config),
                    HasSubstr(one.expected))
            << one.text;
    }
}

// toml++ parses the parts of a key recursively.
TEST(Toml, RefusesALargeTextAndParsesTheDeepestAllowed) {
    constexpr std::size_t kMost = std::size_t{128} << 10;
    const auto deep = [](std::size_t bytes) {
        std::string text;
        while (text.size() + 5 < bytes) text += "a.";
        return text + "a=1\n";
    };
    for (const auto& [text, expected] :
         {std::pair(deep(kMost + 2), "f has 1310"), std::pair(deep(kMost), "f:1: a key of more than 1000 parts"),
          std::pair("b = 1\n" + deep(2003), "f:2: 'a' is"),
          std::pair("b = 1\n" + deep(2009), "f:2: a key of more than 1000 parts")})
        try {
            read_toml(text, "f");
            ADD_FAILURE() << "accepted: " << text.size();
        } catch (const ConfigError& error) {
            EXPECT_THAT(error.what(), HasSubstr(expected));
        }
    EXPECT_EQ(read_toml("a = 1" + std::string(kMost - 5, ' '), "f").size(), 1U);
}

TEST(Toml, ArraysOfTablesComeAfterTheRest) {
    const TomlDocument document = read_toml_of_tables(
        "a = 1\n[[input]]\nname = \"x\"\n\n [[ \"input\" ]] # the second\nname = 'y'\na = 2\n[[input]]", "f", "input");
    ASSERT_EQ(document.top.size(), 1U);
    ASSERT_EQ(document.tables.size(), 3U);
    EXPECT_EQ(document.tables[0].line, 2U);
    ASSERT_EQ(document.tables[0].entries.size(), 1U);
    EXPECT_EQ(document.tables[0].entries[0].text, "x");
    ASSERT_EQ(document.tables[1].entries.size(), 2U) << "a top-level key may be in a table, too";
    EXPECT_EQ(document.tables[1].entries[0].line, 6U);
    EXPECT_TRUE(document.tables[2].entries.empty());
    for (const char* const text : {"[input]", "[[output]]", "[[input]", "[[", "[[input]] a", "[[input.more]]",
                                   "[[input]]\na = 1\na = 2", "[[]]"})
        EXPECT_THROW((void)read_toml_of_tables(text, "f", "input"), ConfigError) << text;
}

TEST(Toml, ATableMayStandAmongArraysOfTables) {
    const TomlDocument document = read_toml_of_tables(
        "[[input]]\nname = \"x\"\n[whole]\nb = 1\na = true\n[[input]]\nname = \"y\"", "f", "input", "whole");
    ASSERT_EQ(document.tables.size(), 2U);
    ASSERT_TRUE(document.single);
    EXPECT_EQ(document.single->line, 3U);
    ASSERT_EQ(document.single->entries.size(), 2U);
    EXPECT_EQ(document.single->entries[0].key, "b");
    EXPECT_EQ(document.single->entries[1].line, 5U);
    EXPECT_FALSE(read_toml_of_tables("[[input]]", "f", "input", "whole").single);
    for (const char* const text : {"[whole]\n[whole]", "[[whole]]", "[whole.more]", "[whole]\na = []", "[other]"})
        EXPECT_THROW((void)read_toml_of_tables(text, "f", "input", "whole"), ConfigError) << text;
}

// Every ASCII character, and one of each longer form.
std::string any_utf8_character() {
    const int code = *rc::gen::inRange(0, 128 + 3);
    static constexpr const char* kLonger[] = {"\u00e9", "\u65e5", "\U0001F600"};
    return code < 128 ? std::string(1, static_cast<char>(code)) : kLonger[code - 128];
}

RC_GTEST_PROP(Toml, AQuotedStringReadsBackAsItself, ()) {
    std::string text;
    for (int left = *rc::gen::inRange(0, 40); left > 0; --left) text += any_utf8_character();
    RC_ASSERT(is_utf8(text));
    const auto entries = read_toml("key = " + quote_toml(text), "f");
    RC_ASSERT(entries.size() == 1U);
    RC_ASSERT(entries[0].text == text);
    RC_ASSERT(entries[0].type == TomlType::String);
}

RC_GTEST_PROP(Toml, AnyTextIsReadOrRefused, ()) {
    const auto text =
        *rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab=\"'\\#.-_+0x1eu\n\r\t []{}\xc3\xa9")));
    try {
        for (const TomlEntry& entry : read_toml(text, "f")) RC_ASSERT(entry.line >= 1U);
    } catch (const ConfigError& error) {
        RC_ASSERT(std::string(error.what()).starts_with("f:"));
    }
}

}  // namespace
}  // namespace offramp
