#include "common/base/utf8.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

namespace offramp {
namespace {

using namespace std::string_view_literals;

TEST(Utf8, KnowsTheLengthOfWellFormedCharacters) {
    EXPECT_EQ(utf8_character_bytes("a"), 1U);
    EXPECT_EQ(utf8_character_bytes("\0"sv), 1U);
    EXPECT_EQ(utf8_character_bytes("\u00e9x"), 2U);
    EXPECT_EQ(utf8_character_bytes("\u0800"), 3U);
    EXPECT_EQ(utf8_character_bytes("\ud7ff"), 3U);
    EXPECT_EQ(utf8_character_bytes("\ue000"), 3U);
    EXPECT_EQ(utf8_character_bytes("\U00010000"), 4U);
    EXPECT_EQ(utf8_character_bytes("\U0010ffff"), 4U);
}

TEST(Utf8, RefusesEveryMalformedForm) {
    for (const std::string_view text : {""sv, "\x80"sv, "\xbf"sv,                            // continuation bytes alone
                                        "\xc0\x80"sv, "\xc1\xbf"sv,                          // overlong
                                        "\xe0\x9f\xbf"sv, "\xf0\x8f\xbf\xbf"sv,              // overlong
                                        "\xed\xa0\x80"sv, "\xed\xbf\xbf"sv,                  // surrogates
                                        "\xf4\x90\x80\x80"sv, "\xf5\x80\x80\x80"sv,          // beyond U+10FFFF
                                        "\xff"sv, "\xc3"sv, "\xe2\x82"sv, "\xf0\x9f\x98"sv,  // cut off
                                        "\xc3("sv, "\xe2(\xa1"sv, "\xe2\x82("sv})
        EXPECT_EQ(utf8_character_bytes(text), 0U) << testing::PrintToString(text);
}

TEST(Utf8, ValidatesWholeTexts) {
    EXPECT_TRUE(is_utf8(""));
    EXPECT_TRUE(is_utf8("plain \u00e9 \U0001F600"));
    EXPECT_FALSE(is_utf8("fine until here\xff"));
    EXPECT_FALSE(is_utf8("\xffrest"));
}

// Every code point, encoded by the definition, is accepted with its length; a surrogate is not.
TEST(Utf8, AgreesWithTheDefinitionOnEveryCodePoint) {
    for (std::uint32_t code = 0; code < 0x110000; ++code) {
        const std::size_t bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
        std::string text(bytes, '\0');
        std::uint32_t rest = code;
        for (std::size_t i = bytes; i-- > 1; rest >>= 6) text[i] = static_cast<char>(0x80 | (rest & 0x3f));
        constexpr unsigned kLead[] = {0, 0, 0xc0, 0xe0, 0xf0};
        text[0] = static_cast<char>(kLead[bytes] | rest);
        const bool surrogate = code >= 0xd800 && code < 0xe000;
        ASSERT_EQ(utf8_character_bytes(text), surrogate ? 0 : bytes) << code;
    }
}

RC_GTEST_PROP(Utf8, NeverLooksPastTheEnd, (const std::string& bytes)) {
    RC_ASSERT(utf8_character_bytes(bytes) <= bytes.size());
}

}  // namespace
}  // namespace offramp
