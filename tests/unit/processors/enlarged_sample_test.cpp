#include "consumer/processors/segmentation/enlarged_sample.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace offramp {
namespace {

// Made-up scores, as float and as stored.
struct Sample {
    ClassScores scores;
    std::vector<float> values;  // [classes, height, width]
    std::vector<std::byte> bytes;
};

// 16-bit values have few bits, so that they are exact.
Sample made_up(DType dtype, std::int64_t classes, std::int64_t height, std::int64_t width, bool channels_last) {
    Sample sample;
    sample.values.resize(static_cast<std::size_t>(classes * height * width));
    sample.bytes.resize(sample.values.size() * dtype.bytes());
    sample.scores = {.data = sample.bytes.data(),
                     .dtype = dtype,
                     .classes = classes,
                     .height = height,
                     .width = width,
                     .class_stride = channels_last ? 1 : height * width,
                     .row_stride = channels_last ? width * classes : width,
                     .column_stride = channels_last ? classes : 1};
    std::uint32_t state = 3;
    for (std::int64_t c = 0; c < classes; ++c)
        for (std::int64_t y = 0; y < height; ++y)
            for (std::int64_t x = 0; x < width; ++x) {
                state = state * 1664525U + 1013904223U;
                // Two bits of mantissa and any sign; float16 with a small exponent.
                const auto quarter = static_cast<std::uint16_t>(state >> 30U);
                const std::uint32_t one_and_quarters =
                    dtype == kFloat16 ? 0x3c00U | quarter << 8U : 0x3f80U | quarter << 5U;
                const auto bits16 = static_cast<std::uint16_t>((state >> 13U & 0x8000U) | one_and_quarters);
                const float sign = (bits16 & 0x8000U) != 0 ? -1.0F : 1.0F;
                float value = sign * (1.0F + static_cast<float>(quarter) / 4.0F);
                if (dtype == kFloat32) value += static_cast<float>(state >> 16U) * 1e-5F;
                sample.values[static_cast<std::size_t>((c * height + y) * width + x)] = value;
                const auto at = static_cast<std::size_t>(c * sample.scores.class_stride + y * sample.scores.row_stride +
                                                         x * sample.scores.column_stride);
                if (dtype == kFloat32)
                    std::memcpy(&sample.bytes[at * 4], &value, 4);
                else
                    std::memcpy(&sample.bytes[at * 2], &bits16, 2);
            }
    return sample;
}

// PyTorch's formula in double.
double expected_at(const Sample& sample, std::int64_t upsample_factor, std::int64_t c, std::int64_t y, std::int64_t x) {
    const auto place = [&](std::int64_t at) {
        return std::max(0.0, (static_cast<double>(at) + 0.5) / static_cast<double>(upsample_factor) - 0.5);
    };
    const auto value = [&](std::int64_t line, std::int64_t column) {
        const std::int64_t row = std::min(line, sample.scores.height - 1);
        return static_cast<double>(sample.values[static_cast<std::size_t>(
            (c * sample.scores.height + row) * sample.scores.width + std::min(column, sample.scores.width - 1))]);
    };
    const auto y0 = static_cast<std::int64_t>(place(y));
    const auto x0 = static_cast<std::int64_t>(place(x));
    const double v = place(y) - static_cast<double>(y0);
    const double u = place(x) - static_cast<double>(x0);
    return (1 - v) * ((1 - u) * value(y0, x0) + u * value(y0, x0 + 1)) +
           v * ((1 - u) * value(y0 + 1, x0) + u * value(y0 + 1, x0 + 1));
}

std::vector<float> all_of(EnlargedSample& enlarged, const Sample& sample, std::uint32_t upsample_factor) {
    enlarged.begin(sample.scores, upsample_factor);
    std::vector<float> all(sample.values.size() * upsample_factor * upsample_factor);
    enlarged.all(all);
    return all;
}

TEST(EnlargedSample, EqualsPyTorchsBilinearEnlargement) {
    EnlargedSample enlarged;
    for (const DType dtype : {kFloat32, kFloat16, kBFloat16})
        for (const bool channels_last : {false, true})
            for (const std::uint32_t upsample_factor : {1U, 2U, 3U, 8U}) {
                const Sample sample = made_up(dtype, 3, 4, 5, channels_last);
                const std::vector<float> all = all_of(enlarged, sample, upsample_factor);
                std::size_t i = 0;
                for (std::int64_t c = 0; c < 3; ++c)
                    for (std::int64_t y = 0; y < 4 * upsample_factor; ++y)
                        for (std::int64_t x = 0; x < 5 * upsample_factor; ++x, ++i)
                            ASSERT_NEAR(all[i], expected_at(sample, upsample_factor, c, y, x), 2e-6)
                                << to_string(dtype) << " by " << upsample_factor << " at " << c << "," << y << "," << x;
            }
}

TEST(EnlargedSample, GivesTheSameBitsOnEveryMachine) {
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) GTEST_SKIP() << "no AVX2";
    const Sample sample = made_up(kFloat32, 21, 7, 9, false);
    EnlargedSample baseline(kBaselineEnlarge);
    EnlargedSample fast(kAvx2Enlarge);
    EXPECT_EQ(all_of(baseline, sample, 8), all_of(fast, sample, 8));
    EXPECT_EQ(all_of(baseline, sample, 3), all_of(fast, sample, 3));
#else
    GTEST_SKIP() << "one instruction set only";
#endif
}

TEST(EnlargedSample, GivesLinesInAnyOrder) {
    const Sample sample = made_up(kFloat32, 2, 3, 3, false);
    EnlargedSample enlarged;
    const std::vector<float> all = all_of(enlarged, sample, 4);
    for (const std::int64_t y : {11, 0, 6, 5, 6, 1, 10}) {
        const auto line = enlarged.line(y);
        ASSERT_EQ(line.size(), 24U);
        for (std::size_t c = 0; c < 2; ++c)
            EXPECT_TRUE(std::equal(line.begin() + static_cast<std::ptrdiff_t>(c) * 12,
                                   line.begin() + static_cast<std::ptrdiff_t>(c + 1) * 12,
                                   all.begin() + static_cast<std::ptrdiff_t>(c) * 144 + y * 12))
                << y;
    }
}

TEST(EnlargedSample, WidensEvery16BitNumber) {
    const std::uint16_t halves[] = {0x0001, 0x03ff, 0x0400, 0x3555, 0x7bff, 0x7c00, 0x8000, 0xc000};
    const float expected[] = {std::ldexp(1.0F, -24),
                              std::ldexp(1023.0F, -24),
                              std::ldexp(1.0F, -14),
                              1365.0F / 4096,
                              65504.0F,
                              std::numeric_limits<float>::infinity(),
                              -0.0F,
                              -2.0F};
    EnlargedSample enlarged;
    enlarged.begin({.data = reinterpret_cast<const std::byte*>(halves),
                    .dtype = kFloat16,
                    .classes = 1,
                    .height = 1,
                    .width = 8,
                    .class_stride = 8,
                    .row_stride = 8,
                    .column_stride = 1},
                   1);
    EXPECT_THAT(enlarged.line(0), ::testing::ElementsAreArray(expected));
    const std::uint16_t nan = 0x7e01;
    enlarged.begin({.data = reinterpret_cast<const std::byte*>(&nan),
                    .dtype = kFloat16,
                    .classes = 1,
                    .height = 1,
                    .width = 1,
                    .class_stride = 1,
                    .row_stride = 1,
                    .column_stride = 1},
                   1);
    EXPECT_TRUE(std::isnan(enlarged.line(0)[0]));
}

}  // namespace
}  // namespace offramp
