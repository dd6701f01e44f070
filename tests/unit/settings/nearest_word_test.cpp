#include "common/app/settings/setting_checks.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace offramp {
namespace {

TEST(NearestWord, IsTheOneWithTheFewestEdits) {
    const std::vector<std::string> known{"batch", "batches", "image-size", "slabs"};
    EXPECT_EQ(nearest_word("batch", known), "batch");
    EXPECT_EQ(nearest_word("bathc", known), "batch");
    EXPECT_EQ(nearest_word("batche", known), "batch");
    EXPECT_EQ(nearest_word("imagesize", known), "image-size");
    EXPECT_EQ(nearest_word("slab", known), "slabs");
}

TEST(NearestWord, IsNoneWhenAllAreFar) {
    const std::vector<std::string> known{"batch", "slabs"};
    EXPECT_EQ(nearest_word("dead-letters", known), std::nullopt);
    EXPECT_EQ(nearest_word("batch", {}), std::nullopt);
}

}  // namespace
}  // namespace offramp
