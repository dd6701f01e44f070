#include "producer/runner/ingest/staging.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <optional>

namespace offramp {
namespace {

ItemRanges ranges(std::initializer_list<ItemRange> list) {
    ItemRanges set;
    for (const ItemRange& range : list) set.add(range);
    return set;
}

TEST(BatchPlan, PlansEveryBatchWithNothingDone) {
    const BatchPlan plan(10, 4);
    EXPECT_EQ(plan.batches(), 3U);
    EXPECT_EQ(plan.number(2), 2U);
    EXPECT_EQ(plan.rows(2), 2U);
    EXPECT_EQ(plan.wanted_rows(1), 4U);
    EXPECT_EQ(plan.next_wanted(2, 2), 2U);
}

TEST(BatchPlan, KeepsBatchNumbersAndRowPositions) {
    const BatchPlan plan(22, 4, ranges({{0, 8}, {9, 12}, {13, 16}, {17, 20}}));
    ASSERT_EQ(plan.batches(), 4U);
    EXPECT_EQ(plan.number(0), 2U);  // item 8, of row 0
    EXPECT_EQ(plan.number(1), 3U);
    EXPECT_EQ(plan.number(2), 4U);
    EXPECT_EQ(plan.number(3), 5U);
    EXPECT_EQ(plan.next_wanted(2, 0), 0U);
    EXPECT_EQ(plan.next_wanted(2, 1), 4U);
    EXPECT_EQ(plan.wanted_rows(4), 1U);
    EXPECT_EQ(plan.wanted_rows(5), 2U);
}

TEST(BatchPlan, BatchesOfDifferentSizesKeepTheirItems) {
    const BatchPlan plan(10, 4, ranges({{0, 3}, {4, 5}}), {0, 3, 4, 8});
    ASSERT_EQ(plan.batches(), 3U);
    EXPECT_EQ(plan.number(0), 1U);
    EXPECT_EQ(plan.rows(1), 1U);
    EXPECT_EQ(plan.rows(2), 4U);
    EXPECT_EQ(plan.wanted_rows(2), 3U);
    EXPECT_EQ(plan.first_item(3), 8U);
    EXPECT_EQ(plan.rows(3), 2U);
}

TEST(BatchPlan, PlansNothingWithEverythingDone) {
    EXPECT_EQ(BatchPlan(10, 4, ranges({{0, 10}})).batches(), 0U);
    EXPECT_EQ(BatchPlan(0, 4).batches(), 0U);
}

TEST(BatchPlan, PlansAnyNumberOfBatchesInstantly) {
    const std::uint64_t many = std::uint64_t{1} << 60;
    const BatchPlan plan(many, 4, ranges({{0, 9}, {16, 20}, {many - 5, many}}));
    ASSERT_EQ(plan.batches(), many / 4 - 2 - 1 - 1);
    EXPECT_EQ(plan.number(0), 2U);
    EXPECT_EQ(plan.number(1), 3U);
    EXPECT_EQ(plan.number(2), 5U);
    EXPECT_EQ(plan.number(plan.batches() - 1), many / 4 - 2);
}

RC_GTEST_PROP(BatchPlan, MakesEveryMissingItemOnce, ()) {
    const auto items = *rc::gen::inRange<std::uint64_t>(0, 70);
    const auto batch = *rc::gen::inRange<std::uint32_t>(1, 9);
    std::vector<std::uint64_t> starts;
    if (*rc::gen::arbitrary<bool>())
        for (std::uint64_t item = 0; item < items; item += *rc::gen::inRange<std::uint64_t>(1, batch + 1))
            starts.push_back(item);
    ItemRanges done;
    for (std::uint64_t item = 0; item < items; ++item)
        if (*rc::gen::weightedElement<bool>({{2, true}, {1, false}})) done.add({item, item + 1});
    const BatchPlan plan(items, batch, done, starts);
    ItemRanges all = done;
    std::uint64_t made = 0;
    std::optional<std::uint64_t> previous;
    for (std::uint64_t turn = 0; turn < plan.batches(); ++turn) {
        const std::uint64_t number = plan.number(turn);
        RC_ASSERT(plan.wanted_rows(number) > 0);
        RC_ASSERT(!previous || *previous < number);
        previous = number;
        for (auto row = plan.next_wanted(number, 0); row < plan.rows(number); row = plan.next_wanted(number, row + 1)) {
            const std::uint64_t item = plan.first_item(number) + row;
            RC_ASSERT(!plan.is_done(item));
            RC_ASSERT(plan.number_of(item) == number);
            all.add({item, item + 1});
            ++made;
        }
    }
    RC_ASSERT(made == items - done.items());
    RC_ASSERT(all.items() == items);
}

}  // namespace
}  // namespace offramp
