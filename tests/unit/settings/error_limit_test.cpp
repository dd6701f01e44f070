#include "common/app/settings/parsed_values.hpp"

#include <gtest/gtest.h>

namespace offramp {
namespace {

TEST(ErrorLimit, ANumberIsALimitForAnyInput) {
    const auto limit = ErrorLimit::parse("2");
    ASSERT_TRUE(limit);
    EXPECT_FALSE(limit->exceeded(2, 2));
    EXPECT_TRUE(limit->exceeded(3, 1'000'000));
    EXPECT_TRUE(ErrorLimit::parse("0")->exceeded(1, 100));
}

TEST(ErrorLimit, AShareGrowsWithTheItems) {
    const auto limit = ErrorLimit::parse("0.5%");
    ASSERT_TRUE(limit);
    EXPECT_FALSE(limit->exceeded(5, 1000));
    EXPECT_TRUE(limit->exceeded(6, 1000));
    EXPECT_FALSE(ErrorLimit::parse("100%")->exceeded(1000, 1000));
    EXPECT_TRUE(ErrorLimit::parse("0%")->exceeded(1, 1000));
    EXPECT_FALSE(ErrorLimit::parse("29%")->exceeded(29, 100));
    EXPECT_TRUE(ErrorLimit::parse("29%")->exceeded(30, 100)) << "0.29 * 100 is a little more than 29";
    EXPECT_EQ(ErrorLimit::parse("25")->allowed(7), 25U);
}

TEST(ErrorLimit, AShareOfFewItemsAllowsOne) {
    const auto limit = ErrorLimit::parse("10%");
    ASSERT_TRUE(limit);
    EXPECT_FALSE(limit->exceeded(1, 2));
    EXPECT_TRUE(limit->exceeded(2, 8));
    EXPECT_EQ(limit->allowed(10), 1U);
    EXPECT_EQ(limit->allowed(11), 2U);
    EXPECT_EQ(limit->allowed(3001), 301U);
}

TEST(ErrorLimit, RefusesAnythingElse) {
    for (const char* text :
         {"", "%", "-1", "+1", "1.5", "1 %", "101%", "-0.1%", "nan%", "inf%", "1%%", "a", "99999999999999999999"})
        EXPECT_FALSE(ErrorLimit::parse(text)) << text;
}

}  // namespace
}  // namespace offramp
