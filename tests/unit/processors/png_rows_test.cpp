#include "consumer/processors/pictures/png_bytes.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <vector>

namespace offramp {
namespace {

// As in PNG's specification (ISO 15948, 9.4).
int paeth_predictor(int left, int above, int corner) {
    const int estimate = left + above - corner;
    const int to_left = std::abs(estimate - left), to_above = std::abs(estimate - above);
    const int to_corner = std::abs(estimate - corner);
    if (to_left <= to_above && to_left <= to_corner) return left;
    return to_above <= to_corner ? above : corner;
}

// Each of the 16.7 million triples of neighbours once, in rows that begin and end inside a vector.
TEST(SubtractPaeth, FollowsPngForAllNeighbours) {
    constexpr std::size_t kRow = 2 * 256 * 251 + 3;
    std::vector<std::uint8_t> above(kRow), row(kRow), filtered(kRow + 1);
    std::mt19937 random(1);
    int wrong = 0;
    for (int corner = 0; corner < 256; ++corner) {
        std::size_t at = 0;
        for (int left = 0; left < 256; ++left)
            for (int up = 0; up < 256 && at + 1 < kRow; ++up, at += 2) {
                above[at] = static_cast<std::uint8_t>(corner);
                row[at] = static_cast<std::uint8_t>(left);
                above[at + 1] = static_cast<std::uint8_t>(up);
                row[at + 1] = static_cast<std::uint8_t>(random());
            }
        subtract_paeth(row, kRow, 1, above.data(), filtered.data());
        ASSERT_EQ(filtered[0], 4);
        ASSERT_EQ(filtered[1], static_cast<std::uint8_t>(row[0] - above[0]));
        for (std::size_t i = 1; i < kRow; ++i)
            wrong += filtered[1 + i] ==
                             static_cast<std::uint8_t>(row[i] - paeth_predictor(row[i - 1], above[i], above[i - 1]))
                         ? 0
                         : 1;
    }
    EXPECT_EQ(wrong, 0);
}

TEST(SubtractPaeth, UsesZeroAboveTheFirstRowElseThePreviousRow) {
    const std::vector<std::uint8_t> rows = {10, 20, 13, 27, 11, 22, 13, 29};  // two of two pixels of two bytes
    std::vector<std::uint8_t> filtered(10);
    subtract_paeth(rows, 4, 2, nullptr, filtered.data());
    EXPECT_EQ(filtered, (std::vector<std::uint8_t>{4, 10, 20, 3, 7, 4, 1, 2, 0, 2}));
    std::vector<std::uint8_t> second(5);
    subtract_paeth(std::span(rows).subspan(4), 4, 2, rows.data(), second.data());
    EXPECT_EQ(second, (std::vector<std::uint8_t>{4, 1, 2, 0, 2}));
}

}  // namespace
}  // namespace offramp
