#include "producer/runner/ingest/skipped_items.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace offramp {
namespace {

using ::testing::HasSubstr;

SkippedItem tile(std::uint64_t item, const std::string& picture, const std::string& reason) {
    return {.item = item, .origin = picture + ", tile " + std::to_string(item), .reason = reason, .whole = picture};
}

TEST(SkippedItems, TilesOfOnePictureDoNotDisplaceOthers) {
    SkippedItems skipped(3);
    for (std::uint64_t item = 0; item < 1000; ++item) skipped.record(tile(item + 10, "b.png", "damaged"));
    skipped.record({.item = 5, .origin = "c.jpg", .reason = "CMYK"});
    EXPECT_EQ(skipped.total(), 1001U);
    const auto list = skipped.list();
    ASSERT_EQ(list.size(), 2U);
    EXPECT_EQ(list[0].origin, "c.jpg");
    EXPECT_EQ(list[0].similar, 0U);
    EXPECT_EQ(list[1].origin, "b.png, tile 10");
    EXPECT_EQ(list[1].similar, 999U);
}

TEST(SkippedItems, ListsTheFirstOfEqualPartsInAnyOrder) {
    SkippedItems skipped;
    for (const std::uint64_t item : {7, 4, 9}) skipped.record(tile(item, "b.png", "damaged"));
    const auto list = skipped.list();
    ASSERT_EQ(list.size(), 1U);
    EXPECT_EQ(list[0].item, 4U);
    EXPECT_EQ(list[0].origin, "b.png, tile 4");
    EXPECT_EQ(list[0].similar, 2U);
    EXPECT_EQ(list[0].last_item, 9U);
    EXPECT_EQ(list[0].last_origin, "b.png, tile 9");
    EXPECT_TRUE(skipped.lists_all());
}

TEST(SkippedItems, ListsOtherReasonsAndPicturesSeparately) {
    SkippedItems skipped;
    skipped.record(tile(1, "b.png", "damaged"));
    skipped.record(tile(2, "b.png", "too large"));
    skipped.record(tile(3, "c.png", "damaged"));
    skipped.record({.item = 4, .origin = "d.png", .reason = "damaged"});
    skipped.record({.item = 5, .origin = "e.png", .reason = "damaged"});
    EXPECT_EQ(skipped.list().size(), 5U);
}

TEST(SkippedItems, AFullListStillCountsEqualParts) {
    SkippedItems skipped(1);
    skipped.record(tile(1, "b.png", "damaged"));
    skipped.record({.item = 2, .origin = "c.jpg", .reason = "CMYK"});
    skipped.record(tile(3, "d.png", "damaged"));
    skipped.record(tile(4, "b.png", "damaged"));
    EXPECT_EQ(skipped.total(), 4U);
    ASSERT_EQ(skipped.list().size(), 1U);
    EXPECT_EQ(skipped.list()[0].similar, 1U);
    EXPECT_FALSE(skipped.lists_all());
}

TEST(SkippedItems, IncludesThePredecessorsCount) {
    SkippedItems skipped(10, 7);
    EXPECT_TRUE(skipped.lists_all());
    skipped.record(tile(1, "b.png", "damaged"));
    EXPECT_EQ(skipped.total(), 8U);
    EXPECT_TRUE(skipped.lists_all());
}

TEST(SkippedItems, AFailureReportsTheNumberOfEqualParts) {
    SkippedItems skipped;
    for (std::uint64_t item = 0; item < 30; ++item) skipped.record(tile(item, "b.png", "damaged"));
    skipped.record({.item = 31, .origin = "c.jpg", .reason = "CMYK"});
    const std::string text = ErrorBudget("1", 40).failure(skipped.total(), skipped.list()).what();
    EXPECT_THAT(text, HasSubstr("31 of 40 items could not be read"));
    EXPECT_THAT(text, HasSubstr("b.png, tile 0: damaged (and 29 more like it); c.jpg: CMYK. "));
    EXPECT_THAT(ErrorBudget("1", 40).failure(29, skipped.list()).what(), HasSubstr("31 of 40 items"))
        << "others were found in between";
}

}  // namespace
}  // namespace offramp
