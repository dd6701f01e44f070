#include "common/base/duration_histogram.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace offramp {
namespace {

TEST(DurationHistogram, CountsADurationUnderTheFirstBoundNotExceeded) {
    DurationHistogram histogram;
    histogram.add(0);
    histogram.add(100'000);
    histogram.add(100'001, 3);
    histogram.add(100'000'000'001);
    EXPECT_EQ(histogram.counts().front(), 2U);
    EXPECT_EQ(histogram.counts()[1], 3U);
    EXPECT_EQ(histogram.counts().back(), 1U);
    EXPECT_EQ(std::accumulate(histogram.counts().begin(), histogram.counts().end(), std::uint64_t{0}), 6U);
    EXPECT_DOUBLE_EQ(histogram.seconds(), 100.000400004);
    EXPECT_TRUE(std::ranges::is_sorted(DurationHistogram::kBoundsNs));
}

}  // namespace
}  // namespace offramp
