#include "producer/runner/sources/normal_noise.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>
#include <vector>

namespace offramp {
namespace {

std::vector<float> noise(std::uint64_t seed, std::uint64_t stream, std::size_t count) {
    std::vector<float> values(count);
    NormalNoise(seed).fill(stream, values);
    return values;
}

TEST(NormalQuantile, InvertsTheDistribution) {
    for (const double p : {1e-6, 0.001, 0.02, 0.024, 0.025, 0.3, 0.5, 0.7, 0.975, 0.9999}) {
        const double below = 0.5 * std::erfc(-normal_quantile(p) / std::sqrt(2.0));
        EXPECT_NEAR(below / p, 1.0, 1e-7) << p;
        EXPECT_NEAR(normal_quantile(1 - p), -normal_quantile(p), 1e-9);
    }
}

TEST(NormalNoise, HasTheMomentsOfANormalDistribution) {
    const std::vector<float> values = noise(1, 0, 4'000'000);
    double sum = 0, square = 0, cube = 0, fourth = 0;
    for (const float value : values) {
        const double v = static_cast<double>(value);
        sum += v;
        square += v * v;
        cube += v * v * v;
        fourth += v * v * v * v;
    }
    const double n = static_cast<double>(values.size());
    // Five standard errors and more.
    EXPECT_NEAR(sum / n, 0, 0.003);
    EXPECT_NEAR(square / n, 1, 0.004);
    EXPECT_NEAR(cube / n, 0, 0.01);
    EXPECT_NEAR(fourth / n, 3, 0.03);
}

TEST(NormalNoise, NeighboursAreUncorrelated) {
    const std::vector<float> values = noise(3, 9, 1'000'000);
    for (const std::size_t lag : {1U, 2U, 4U, 64U}) {
        double product = 0;
        for (std::size_t i = lag; i < values.size(); ++i)
            product += static_cast<double>(values[i]) * static_cast<double>(values[i - lag]);
        EXPECT_NEAR(product / static_cast<double>(values.size()), 0, 0.006) << lag;
    }
}

TEST(NormalNoise, DependsOnlyOnSeedAndStream) {
    EXPECT_EQ(noise(1, 2, 1001), noise(1, 2, 1001));
    EXPECT_NE(noise(1, 2, 1001), noise(1, 3, 1001));
    EXPECT_NE(noise(1, 2, 1001), noise(2, 2, 1001));
    EXPECT_NE(noise(1, 2, 1001), noise(2, 1, 1001));
    const std::vector<float> longer = noise(5, 5, 100);
    const std::vector<float> shorter = noise(5, 5, 99);
    EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
}

TEST(NormalNoise, StreamsDoNotRepeatEachOther) {
    const NormalNoise noise_of_one_seed(0);
    std::set<std::vector<float>> seen;
    for (std::uint64_t stream = 0; stream < 1000; ++stream) {
        std::vector<float> values(8);
        noise_of_one_seed.fill(stream, values);
        seen.insert(values);
    }
    EXPECT_EQ(seen.size(), 1000U);
}

// The bits must be equal on every machine: a change here changes the input of every synthetic run.
TEST(NormalNoise, BitsAreFrozen) {
    std::uint64_t hash = 0xcbf29ce484222325ULL;
    for (const float value : noise(42, 7, 100'000))
        hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3ULL;
    EXPECT_EQ(hash, 13384660639437776403ULL);
    std::uint64_t table = 0xcbf29ce484222325ULL;
    for (int i = 0; i < 65536; ++i)
        table = (table ^ std::bit_cast<std::uint32_t>(static_cast<float>(normal_quantile((i + 0.5) / 65536)))) *
                0x100000001b3ULL;
    EXPECT_EQ(table, 7991787816808883395ULL);
}

}  // namespace
}  // namespace offramp
