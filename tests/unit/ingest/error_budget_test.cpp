#include "producer/runner/ingest/skipped_items.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.hpp"

namespace offramp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ErrorBudget, AllowsACountAndNoMore) {
    const ErrorBudget budget("25", 1000);
    EXPECT_FALSE(budget.exceeded_by(25));
    EXPECT_TRUE(budget.exceeded_by(26));
    EXPECT_TRUE(ErrorBudget("0", 1000).exceeded_by(1));
}

TEST(ErrorBudget, AShareIsOfAllItems) {
    EXPECT_FALSE(ErrorBudget("1%", 1000).exceeded_by(10));
    EXPECT_TRUE(ErrorBudget("1%", 1000).exceeded_by(11));
    EXPECT_FALSE(ErrorBudget("1%", 99).exceeded_by(1));
    EXPECT_TRUE(ErrorBudget("1%", 99).exceeded_by(2));
    EXPECT_FALSE(ErrorBudget("12.5%", 8).exceeded_by(1));
}

TEST(ErrorBudget, AHundredPercentStillFailsWhenNothingWasRead) {
    const ErrorBudget budget("100%", 7);
    EXPECT_FALSE(budget.exceeded_by(7));
    EXPECT_FALSE(budget.all_failed(6));
    EXPECT_TRUE(budget.all_failed(7));
    EXPECT_FALSE(ErrorBudget("100%", 0).all_failed(0));
}

TEST(ErrorBudget, AnUnreadablePartIsNotAFailure) {
    const ErrorBudget budget("4", 7, ErrorBudget::Of::Part);
    EXPECT_FALSE(budget.all_failed(7));
    EXPECT_TRUE(budget.exceeded_by(5));
}

TEST(ErrorBudget, RefusesAnyOtherText) {
    for (const char* setting : {"", "%", "-1", "1 %", "some", "101%", "25.5", "1e3", "nan%", "99999999999999999999"})
        EXPECT_THAT(test::error_of<ConfigError>([&] { const ErrorBudget budget(setting, 10); }, ErrorKind::Usage),
                    HasSubstr("--max-errors '" + std::string(setting) + "'"))
            << setting;
}

TEST(ErrorBudget, ItsErrorGivesCountLimitAndTheFirstReasons) {
    std::vector<SkippedItem> skipped;
    for (std::uint64_t i = 0; i < 5; ++i)
        skipped.push_back({i, "/data/" + std::to_string(i) + ".jpg", "reason " + std::to_string(i)});
    const RunFailure error = ErrorBudget("4", 100).failure(5, skipped);
    EXPECT_EQ(error.cause().kind, FailureCause::Kind::Input);
    EXPECT_EQ(error.kind(), ErrorKind::BadInput);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("5 of 100 items"), HasSubstr("--max-errors 4"),
                      HasSubstr("/data/0.jpg: reason 0; /data/1.jpg: reason 1; /data/2.jpg: reason 2; and 2 more"),
                      Not(HasSubstr("reason 3"))));
    EXPECT_THAT(ErrorBudget("10%", 12).failure(5, skipped).what(),
                AllOf(HasSubstr("5 of 12 items could not be read, and --max-errors 10% allows 2"),
                      HasSubstr("--max-errors 100%"), HasSubstr("--resume continues")));
    const auto none_of_5 = [&](ErrorBudget::Items kind) {
        return std::string(ErrorBudget("100%", 5, ErrorBudget::Of::Whole, kind).failure(5, skipped).what());
    };
    EXPECT_THAT(none_of_5(ErrorBudget::Items::Pictures),
                AllOf(HasSubstr("none of the 5 items could be read"), HasSubstr("Pictures may be JPEG")));
    EXPECT_THAT(none_of_5(ErrorBudget::Items::Any), AllOf(HasSubstr("none of the 5 items could be read"),
                                                          HasSubstr("Check that --input"), Not(HasSubstr("Pictures"))));
}

TEST(ErrorBudget, DoesNotCallAReadItemWithoutResultUnreadable) {
    const std::vector<SkippedItem> skipped{{.item = 0, .origin = "a.png", .reason = "torn"},
                                           {.item = 1, .origin = "b.png", .reason = "NaN", .was_read = true}};
    const RunFailure error = ErrorBudget("1", 9).failure(2, skipped);
    EXPECT_THAT(error.what(),
                HasSubstr("2 of 9 items had to be skipped, and --max-errors 1 allows 1: a.png: torn; b.png: NaN"));
    EXPECT_EQ(error.cause().kind, FailureCause::Kind::Input) << "the same command may go further with a mended file";
    EXPECT_EQ(ErrorBudget("0", 9).failure(1, std::span(skipped).last(1)).cause().kind, FailureCause::Kind::Model);
    EXPECT_THAT(ErrorBudget("100%", 2).failure(2, skipped).what(), HasSubstr("none of the 2 items has a result: "));
}

TEST(SkippedItems, CountsAllAndKeepsSome) {
    SkippedItems skipped(2);
    EXPECT_EQ(skipped.record({9, "nine", "x"}), 1U);
    EXPECT_EQ(skipped.record({4, "four", "y"}), 2U);
    EXPECT_EQ(skipped.record({1, "one", "z"}), 3U);
    EXPECT_EQ(skipped.total(), 3U);
    const auto list = skipped.list();
    ASSERT_EQ(list.size(), 2U);
    EXPECT_EQ(list[0].origin, "four");
    EXPECT_EQ(list[1].item, 9U);
}

}  // namespace
}  // namespace offramp
