#include "producer/runner/models/length_groups.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

namespace offramp {
namespace {

constexpr std::uint32_t kLongest = 256;

TEST(LengthGroups, PutsTheLongestFirstAndPadsToTheGroupsLongest) {
    const std::uint32_t lengths[] = {5, 70, 12, 200, 5, 13};
    const LengthGroups groups(lengths, 6, 2, kLongest);
    EXPECT_EQ(groups.places, (std::vector<std::int64_t>{4, 1, 3, 0, 5, 2}));
    ASSERT_EQ(groups.groups.size(), 3U);
    EXPECT_EQ(groups.groups[0].length, 208U);
    EXPECT_EQ(groups.groups[1].length, 16U);
    EXPECT_EQ(groups.groups[2].length, 8U);
    EXPECT_EQ(groups.groups[0].offset, 64U);
    EXPECT_EQ(groups.groups[1].offset, 64U + 2 * 2 * 208 * 4);
    EXPECT_EQ(groups.tokens, 305U);
    EXPECT_EQ(groups.padded_tokens, 2U * (208 + 16 + 8));
    constexpr std::uint64_t kSecond = std::uint64_t{2} * 208, kThird = kSecond + std::uint64_t{2} * 16;
    EXPECT_EQ(groups.texts, (std::vector<TokenRows>{
                                {kThird, 5}, {208, 70}, {kSecond + 16, 12}, {0, 200}, {kThird + 8, 5}, {kSecond, 13}}));
}

TEST(TokenRows, BeginEachRowOfOneBlock) {
    const std::uint32_t lengths[] = {3, 0, 8};
    EXPECT_EQ(token_rows(lengths, 8), (std::vector<TokenRows>{{0, 3}, {8, 0}, {16, 8}}));
}

TEST(LengthGroups, ComputesEmptyTextsButNoMissingRows) {
    const std::uint32_t lengths[] = {0, 0, 3, 0, 0, 0, 0, 0};
    const LengthGroups groups(lengths, 4, 2, kLongest);
    EXPECT_EQ(groups.places, (std::vector<std::int64_t>{1, 2, 0, 3, 4, 5, 6, 7}));
    ASSERT_EQ(groups.groups.size(), 2U);
    EXPECT_EQ(groups.groups[1].length, LengthGroups::kShortest);
    EXPECT_EQ(groups.padded_tokens, 16U);
    const std::uint32_t none[] = {0, 0};
    EXPECT_TRUE(LengthGroups(none, 0, 2, kLongest).groups.empty());
}

TEST(LengthGroups, RoundsNoLengthBeyondTheLongest) {
    EXPECT_EQ(LengthGroups::rounded_up(1, kLongest), 4U);
    EXPECT_EQ(LengthGroups::rounded_up(64, kLongest), 64U);
    EXPECT_EQ(LengthGroups::rounded_up(65, kLongest), 72U);
    EXPECT_EQ(LengthGroups::rounded_up(129, kLongest), 144U);
    EXPECT_EQ(LengthGroups::rounded_up(29, 30), 30U);
}

TEST(LengthGroups, CountsARowsTokensByItsMask) {
    const std::int32_t row[] = {7, 0, 9, 0, 1, 1, 1, 0};
    EXPECT_EQ(tokens_of_row(row), 3U);
    const std::int32_t empty[] = {0, 0, 0, 0};
    EXPECT_EQ(tokens_of_row(empty), 0U);
}

RC_GTEST_PROP(LengthGroupsProperty, EachRowHasAPlaceOfItsOwnInAGroupThatHoldsIt, ()) {
    const auto rows = *rc::gen::inRange<std::uint32_t>(1, 9);
    const auto count = *rc::gen::inRange<std::size_t>(1, 9);
    const auto longest = *rc::gen::inRange<std::uint32_t>(4, 300);
    auto lengths =
        *rc::gen::container<std::vector<std::uint32_t>>(rows * count, rc::gen::inRange<std::uint32_t>(0, longest + 1));
    const auto items = *rc::gen::inRange<std::size_t>(0, lengths.size() + 1);
    std::fill(lengths.begin() + static_cast<std::ptrdiff_t>(items), lengths.end(), 0U);
    const LengthGroups groups(lengths, items, rows, longest);
    std::set<std::int64_t> places(groups.places.begin(), groups.places.end());
    RC_ASSERT(places.size() == lengths.size());
    RC_ASSERT(*places.begin() == 0 && *places.rbegin() + 1 == static_cast<std::int64_t>(lengths.size()));
    std::uint64_t tokens = 0;
    for (std::size_t row = 0; row < lengths.size(); ++row) {
        const std::size_t group = static_cast<std::size_t>(groups.places[row]) / rows;
        tokens += lengths[row];
        if (group >= groups.groups.size())
            RC_ASSERT(row >= items);
        else
            RC_ASSERT(lengths[row] <= groups.groups[group].length && groups.groups[group].length <= longest);
    }
    RC_ASSERT(groups.tokens == tokens);
    std::vector<TokenRows> texts = groups.texts;
    std::erase_if(texts, [](const TokenRows& text) { return text.count == 0; });
    std::ranges::sort(texts, {}, &TokenRows::first);
    for (std::size_t text = 0; text < texts.size(); ++text)
        RC_ASSERT(texts[text].first + texts[text].count <=
                  (text + 1 < texts.size() ? texts[text + 1].first : groups.padded_tokens));
    RC_ASSERT(groups.tokens <= groups.padded_tokens);
    RC_ASSERT(groups.bytes <= LengthGroups::most_bytes(static_cast<std::uint32_t>(lengths.size()), rows, longest));
    for (std::size_t group = 0; group < groups.groups.size(); ++group) {
        const LengthGroups::Group& one = groups.groups[group];
        const std::size_t end = group + 1 < groups.groups.size() ? groups.groups[group + 1].offset : groups.bytes;
        RC_ASSERT(one.offset % 64 == 0);
        RC_ASSERT(one.offset >= lengths.size() * sizeof(std::int64_t));
        RC_ASSERT(one.offset + std::size_t{rows} * 2 * one.length * 4 <= end);
        RC_ASSERT(group == 0 || one.length <= groups.groups[group - 1].length);
    }
}

// No order pads fewer rows: longer texts come first.
RC_GTEST_PROP(LengthGroupsProperty, NoTextStandsBehindAShorterOne, ()) {
    const auto lengths = *rc::gen::container<std::vector<std::uint32_t>>(24, rc::gen::inRange<std::uint32_t>(0, 50));
    const LengthGroups groups(lengths, lengths.size(), 4, kLongest);
    for (std::size_t one = 0; one < lengths.size(); ++one)
        for (std::size_t other = 0; other < one; ++other)
            RC_ASSERT((groups.places[other] < groups.places[one]) == (lengths[other] >= lengths[one]));
}

}  // namespace
}  // namespace offramp
