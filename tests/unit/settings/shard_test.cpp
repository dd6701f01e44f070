#include "common/app/settings/parsed_values.hpp"

#include <gtest/gtest.h>

namespace offramp {
namespace {

TEST(ShardOfAnInput, IsWrittenAsNumberAndCount) {
    const auto shard = Shard::parse("2/4");
    ASSERT_TRUE(shard);
    EXPECT_EQ(shard->number, 2U);
    EXPECT_EQ(shard->count, 4U);
    for (const char* const text :
         {"", "/", "1", "1/", "/1", "0/1", "2/1", "-1/2", "1/2 ", "+1/2", "1/2/3", "a/b", "1/99999999999999999999"})
        EXPECT_FALSE(Shard::parse(text)) << text;
}

TEST(ShardOfAnInput, AllShardsTogetherAreTheWholeInEqualParts) {
    for (const std::uint64_t items : {0ULL, 1ULL, 7ULL, 12ULL, 1000ULL, ~0ULL})
        for (std::uint64_t count = 1; count <= 13; ++count) {
            std::uint64_t end = 0;
            for (std::uint64_t number = 1; number <= count; ++number) {
                const Shard::Range range = Shard{number, count}.of(items);
                EXPECT_EQ(range.begin, end);
                EXPECT_TRUE(range.end - range.begin == items / count || range.end - range.begin == items / count + 1)
                    << items << " " << count;
                end = range.end;
            }
            EXPECT_EQ(end, items);
        }
}

}  // namespace
}  // namespace offramp
