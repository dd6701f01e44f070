#include "common/base/string_index.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

namespace offramp {
namespace {

std::string indexed_text(std::uint64_t number) { return number == 0 ? "" : "text " + std::to_string(number); }

TEST(StringIndex, FindsWhatWasAddedAndNothingElse) {
    for (const std::size_t reserved : {0U, 5000U}) {
        StringIndex index;
        index.reserve(reserved);
        EXPECT_EQ(index.find("", indexed_text), std::nullopt);
        for (std::uint64_t number = 0; number < 10'000; ++number) {
            EXPECT_EQ(index.find(indexed_text(number), indexed_text), std::nullopt);
            EXPECT_EQ(index.add(indexed_text(number), number, indexed_text), std::nullopt);
        }
        for (std::uint64_t number = 0; number < 10'000; ++number)
            EXPECT_EQ(index.find(indexed_text(number), indexed_text), number);
        EXPECT_EQ(index.find("text", indexed_text), std::nullopt);
    }
}

TEST(StringIndex, KeepsTheFirstOfEqualTexts) {
    const auto all_alike = [](std::uint64_t) { return std::string_view("a"); };
    StringIndex index;
    EXPECT_EQ(index.add("a", 3, all_alike), std::nullopt);
    EXPECT_EQ(index.add("a", 7, all_alike), 3U);
    EXPECT_EQ(index.find("a", all_alike), 3U);
    EXPECT_EQ(index.find("b", all_alike), std::nullopt);
    EXPECT_DEATH(index.reserve(100), "room is made before the first string");
}

}  // namespace
}  // namespace offramp
