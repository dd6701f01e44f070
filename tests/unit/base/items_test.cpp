#include "common/base/items.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

namespace offramp {
namespace {

TEST(ItemRanges, MergesAdjacentRanges) {
    ItemRanges set;
    set.add({4, 8});
    set.add({12, 16});
    set.add({8, 12});
    EXPECT_EQ(set.list(), (std::vector<ItemRange>{{4, 16}}));
    EXPECT_EQ(set.items(), 12U);
    set.add({0, 2});
    set.add({9, 9});
    EXPECT_EQ(set.ranges(), 2U);
    EXPECT_EQ(set.next_missing(0), 2U);
    EXPECT_EQ(set.next_missing(4), 16U);
    EXPECT_EQ(set.next_missing(16), 16U);
}

TEST(ItemRanges, AppendsItemsToTheLastRange) {
    std::vector<ItemRange> ranges;
    for (const std::uint64_t item : {3U, 4U, 5U, 7U, 6U}) append_item(ranges, item);
    EXPECT_EQ(ranges, (std::vector<ItemRange>{{3, 6}, {7, 8}, {6, 7}}));
}

RC_GTEST_PROP(ItemRanges, AreTheSetThatTheyStandFor, ()) {
    ItemRanges ranges;
    std::set<std::uint64_t> wanted;
    for (const auto& [begin, length] : *rc::gen::container<std::vector<std::pair<std::uint64_t, std::uint64_t>>>(
             rc::gen::pair(rc::gen::inRange<std::uint64_t>(0, 60), rc::gen::inRange<std::uint64_t>(0, 9)))) {
        ranges.add({begin, begin + length});
        for (std::uint64_t item = begin; item < begin + length; ++item) wanted.insert(item);
    }
    RC_ASSERT(ranges.items() == wanted.size());
    std::uint64_t last_end = 0;
    bool first = true;
    for (const ItemRange& range : ranges.list()) {
        RC_ASSERT(range.begin < range.end);
        RC_ASSERT(first || range.begin > last_end);
        first = false;
        last_end = range.end;
    }
    for (std::uint64_t item = 0; item < 80; ++item) {
        RC_ASSERT(ranges.contains(item) == (wanted.count(item) == 1));
        std::uint64_t missing = item;
        while (wanted.count(missing) == 1) ++missing;
        RC_ASSERT(ranges.next_missing(item) == missing);
    }
    const auto most = *rc::gen::inRange<std::size_t>(0, 10);
    const auto before = ranges.list();
    auto taken = ranges.take_first(most);
    RC_ASSERT(taken.size() == std::min(most, before.size()));
    std::uint64_t left = 0;
    const auto after = ranges.list();
    for (const ItemRange& range : after) left += range.end - range.begin;
    RC_ASSERT(ranges.items() == left);
    taken.insert(taken.end(), after.begin(), after.end());
    RC_ASSERT(taken == before);
}

}  // namespace
}  // namespace offramp
