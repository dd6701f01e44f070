#include "common/settings/flat_toml.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include "common/base/error.hpp"
#include "common/base/utf8.hpp"

namespace offramp {
namespace {

using testing::HasSubstr;

TomlEntry only(const std::string& text) {
    const auto entries = read_flat_toml(text, "f");
    EXPECT_EQ(entries.size(), 1U) << text;
    return entries.empty() ? TomlEntry{} : entries.front();
}

TEST(FlatToml, ReadsEveryKindOfValue) {
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
        {"1e3", TomlType::Float, "1e3"},
        {"inf", TomlType::Float, "inf"},
        {"true", TomlType::Boolean, "true"},
        {"false", TomlType::Boolean, "false"},
    };
    for (const auto& one : cases) {
        const TomlEntry entry = only(std::string("key=") + one.value + "# comment");
        EXPECT_EQ(entry.key, "key");
        EXPECT_EQ(entry.type, one.type) << one.value;
        EXPECT_EQ(entry.text, one.text) << one.value;
    }
}

TEST(FlatToml, ReadsLinesKeysAndComments) {
    const auto entries = read_flat_toml("# first\r\n\r\n  a-b_1 =  1 \t# one\n\"quo ted\" = 2\n'lit'=3", "f");
    ASSERT_EQ(entries.size(), 3U);
    EXPECT_EQ(entries[0].key, "a-b_1");
    EXPECT_EQ(entries[0].line, 3U);
    EXPECT_EQ(entries[1].key, "quo ted");
    EXPECT_EQ(entries[2].key, "lit");
    EXPECT_EQ(entries[2].line, 5U);
}

TEST(FlatToml, RefusesWhatItDoesNotReadAndSaysWhere) {
    const struct {
        const char* text;
        const char* says;
    } cases[] = {
        {"\n[table]", "f:2: tables are not used here"},
        {"a.b = 1", "f:1: 'a.' is a dotted key"},
        {"a = [1, 2]", "f:1: 'a' is an array or a table"},
        {"a = {b = 1}", "f:1: 'a' is an array or a table"},
        {"a", "f:1: '=' is missing behind 'a'"},
        {"a =", "f:1: 'a' has no value"},
        {"a = # none", "f:1: 'a' has no value"},
        {"= 1", "f:1: a key is expected before '= 1'"},
        {"a = 1\nb = 2\na = 3", "f:3: 'a' is set a second time. The first is in line 1"},
        {"a = word",
         "f:1: 'a' has the value word, which is not a string, number or boolean. Strings stand in quotes: a = "
         "\"word\""},
        {"a = 1979-05-27", "f:1: 'a' has the value 1979-05-27"},
        {"a = 01", "f:1: 'a' has the value 01"},
        {"a = 1__0", "f:1: 'a' has the value 1__0"},
        {"a = _1", "f:1: 'a' has the value _1"},
        {"a = 1.", "f:1: 'a' has the value 1."},
        {"a = .5", "f:1: 'a' has the value .5"},
        {"a = 1.e3", "f:1: 'a' has the value 1.e3"},
        {"a = 0x", "f:1: 'a' has the value 0x"},
        {"a = 0x-1", "f:1: 'a' has the value 0x-1"},
        {"a = +0x1", "f:1: 'a' has the value +0x1"},
        {"a = -", "f:1: 'a' has the value -"},
        {"a = --1", "f:1: 'a' has the value --1"},
        {"a = infinity", "f:1: 'a' has the value infinity"},
        {"a = 1 2", "f:1: '2' is left over behind the value of 'a'"},
        {"a = \"x", "f:1: 'a' has a string without its closing \""},
        {"a = 'x", "f:1: 'a' has a string without its closing '"},
        {"a = \"\"\"x\"\"\"", "f:1: 'a' is a string of several lines"},
        {R"(a = "\x")", R"(f:1: 'a' has an unknown escape \x)"},
        {R"(a = "\u12")", R"(f:1: 'a' has an unknown escape \u12)"},
        {R"(a = "\ud800")", R"(f:1: 'a' has an unknown escape \ud800)"},
        {R"(a = "\U00110000")", R"(f:1: 'a' has an unknown escape \U00110000)"},
        {"a = \"\x01\"", "f:1: 'a' has a control character"},
        {"a = \"\xff\"", "f:1: the line is not UTF-8"},
    };
    for (const auto& one : cases) {
        try {
            read_flat_toml(one.text, "f");
            ADD_FAILURE() << "taken: " << one.text;
        } catch (const ConfigError& error) {
            EXPECT_THAT(error.what(), HasSubstr(one.says));
            EXPECT_EQ(error.exit_code(), ExitCode::Config);
        }
    }
}

TEST(FlatToml, TablesOfOneNameStandBelowTheRest) {
    const TomlDocument document = read_toml_of_tables(
        "a = 1\n[[input]]\nname = \"x\"\n\n [[ \"input\" ]] # the second\nname = 'y'\na = 2\n[[input]]", "f", "input");
    ASSERT_EQ(document.top.size(), 1U);
    ASSERT_EQ(document.tables.size(), 3U);
    EXPECT_EQ(document.tables[0].line, 2U);
    ASSERT_EQ(document.tables[0].entries.size(), 1U);
    EXPECT_EQ(document.tables[0].entries[0].text, "x");
    ASSERT_EQ(document.tables[1].entries.size(), 2U) << "a key of the top may stand in a table, too";
    EXPECT_EQ(document.tables[1].entries[0].line, 6U);
    EXPECT_TRUE(document.tables[2].entries.empty());
    for (const char* const text : {"[input]", "[[output]]", "[[input]", "[[", "[[input]] a", "[[input.more]]",
                                   "[[input]]\na = 1\na = 2", "[[]]"})
        EXPECT_THROW((void)read_toml_of_tables(text, "f", "input"), ConfigError) << text;
}

// Every ASCII character, and one of each longer form.
std::string any_utf8_character() {
    const int code = *rc::gen::inRange(0, 128 + 3);
    static constexpr const char* kLonger[] = {"\u00e9", "\u65e5", "\U0001F600"};
    return code < 128 ? std::string(1, static_cast<char>(code)) : kLonger[code - 128];
}

RC_GTEST_PROP(FlatToml, AQuotedStringReadsBackAsItself, ()) {
    std::string text;
    for (int left = *rc::gen::inRange(0, 40); left > 0; --left) text += any_utf8_character();
    RC_ASSERT(is_utf8(text));
    const auto entries = read_flat_toml("key = " + quote_toml(text), "f");
    RC_ASSERT(entries.size() == 1U);
    RC_ASSERT(entries[0].text == text);
    RC_ASSERT(entries[0].type == TomlType::String);
}

RC_GTEST_PROP(FlatToml, AnyTextIsReadOrRefused, ()) {
    const auto text =
        *rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab=\"'\\#.-_+0x1eu\n\r\t []{}\xc3\xa9")));
    try {
        for (const TomlEntry& entry : read_flat_toml(text, "f")) RC_ASSERT(entry.line >= 1U);
    } catch (const ConfigError& error) {
        RC_ASSERT(std::string(error.what()).starts_with("f:"));
    }
}

}  // namespace
}  // namespace offramp
