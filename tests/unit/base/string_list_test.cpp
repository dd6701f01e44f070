#include "common/base/string_list.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace offramp {
namespace {

// Lengths on both sides of one and two length bytes, and of a block.
const std::vector<std::size_t> kLengths{0, 1, 127, 128, 16383, 16384, (1U << 20) - 1, 1U << 20, (1U << 20) + 1, 3};

std::string text_of(std::size_t i) {
    return std::string(kLengths[i % kLengths.size()], static_cast<char>('a' + i % 26));
}

TEST(StringList, KeepsTextsOfAnyLengthInPlace) {
    StringList list;
    for (std::size_t i = 0; i < 3 * kLengths.size(); ++i) list.push_back(text_of(i));
    const std::string_view first = list[1];
    const StringList moved = std::move(list);
    EXPECT_EQ(moved[1].data(), first.data());
    ASSERT_EQ(moved.size(), 3 * kLengths.size());
    for (std::size_t i = 0; i < moved.size(); ++i) EXPECT_EQ(moved[i], text_of(i)) << i;
}

TEST(StringList, AppendsAnotherInPlace) {
    StringList list, longer{"b", "c"};
    list.reserve(6);
    list.append(StringList());
    list.append(StringList{"a"});
    list.push_back("a2");
    longer.reserve_bytes(3U << 20);
    longer.push_back(std::string(2U << 20, 'd'));
    const std::string_view moved = longer[1];
    list.append(std::move(longer));
    list.append(StringList());
    list.push_back("e");
    const std::vector<std::string> wanted{"a", "a2", "b", "c", std::string(2U << 20, 'd'), "e"};
    ASSERT_EQ(list.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(list[i], wanted[i]) << i;
    EXPECT_EQ(list[3].data(), moved.data());
}

TEST(StringList, SortsBytewise) {
    using namespace std::string_view_literals;
    StringList list{"b", "\xc3\xa4", "", "a\0b"sv, "a", "B"};
    list.sort();
    const std::vector<std::string_view> wanted{"", "B", "a", "a\0b"sv, "b", "\xc3\xa4"};
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(list[i], wanted[i]) << i;
}

}  // namespace
}  // namespace offramp
