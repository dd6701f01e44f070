// The kernels for a model's outputs, against references written here: every device gives exactly these bits.
#include <gmock/gmock.h>
#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/numerics/float16_bits.hpp"
#include "common/numerics/pixel_range.hpp"
#include "producer/runner/kernels/kernels.hpp"
#include "tests/contract/device/device_contract.hpp"

namespace offramp {
namespace {

using Limits = std::numeric_limits<float>;

// A 16-bit float with these numbers of exponent and mantissa bits.
struct Format {
    DType type;
    int exponent_bits, mantissa_bits;
    std::uint16_t not_a_number;
};
constexpr Format kFormats[] = {{kFloat16, 5, 10, 0x7e00}, {kBFloat16, 8, 7, 0x7fc0}};

// The value of the float's bits, in double; infinity counts as the number after the largest.
double value_of(std::uint16_t magnitude, const Format& format) {
    const int exponent = magnitude >> format.mantissa_bits;
    const double mantissa = magnitude & ((1 << format.mantissa_bits) - 1);
    const int smallest = 2 - (1 << (format.exponent_bits - 1));
    const double unit = std::ldexp(1.0, smallest - format.mantissa_bits);
    if (exponent == 0) return mantissa * unit;
    return (mantissa + std::ldexp(1.0, format.mantissa_bits)) * std::ldexp(unit, exponent - 1);
}

// Nearest, ties to even, found by bisection among all values.
std::uint16_t reference_cast(float value, const Format& format) {
    if (std::isnan(value)) return format.not_a_number;
    const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
    const auto infinity = static_cast<std::uint16_t>(((1 << format.exponent_bits) - 1) << format.mantissa_bits);
    const double wanted = std::abs(static_cast<double>(value));
    if (wanted >= value_of(infinity, format)) return sign | infinity;
    std::uint16_t below = 0;
    std::uint16_t above = infinity;
    while (above - below > 1) {
        const auto middle = static_cast<std::uint16_t>((below + above) / 2);
        (value_of(middle, format) <= wanted ? below : above) = middle;
    }
    const double to_below = wanted - value_of(below, format);
    const double to_above = value_of(above, format) - wanted;
    const bool takes_below = to_below < to_above || (to_below == to_above && below % 2 == 0);
    return static_cast<std::uint16_t>(sign | (takes_below ? below : above));
}

class CastContract : public DeviceContract {
  protected:
    // `skipped`: the offset in elements of source and target in their buffers.
    bool gives_reference(const std::vector<float>& values, const Format& format, std::size_t skipped) {
        std::vector<float> shifted(skipped);
        shifted.insert(shifted.end(), values.begin(), values.end());
        std::vector<std::uint16_t> expected(shifted.size() + 1, 0xabab);
        std::transform(values.begin(), values.end(), expected.begin() + static_cast<std::ptrdiff_t>(skipped),
                       [&](float value) { return reference_cast(value, format); });
        const auto source = upload(bytes_of(shifted));
        const auto result = upload(bytes_of(std::vector<std::uint16_t>(expected.size(), 0xabab)));
        const auto stream = device().make_stream("cast");
        kernels::cast(*stream, result->data() + 2 * skipped, format.type, source->data() + 4 * skipped, values.size());
        stream->synchronize();
        return download(*result) == bytes_of(expected);
    }
};

TEST_P(CastContract, RoundsToNearestEvenAndKeepsNaN) {
    std::vector<float> values{0.0F,
                              1.0F,
                              Limits::infinity(),
                              Limits::quiet_NaN(),
                              Limits::max(),
                              Limits::min(),
                              Limits::denorm_min(),
                              65504.0F,
                              65519.99F,
                              65520.0F,
                              65535.0F,
                              65536.0F};
    for (const std::uint32_t bits :
         {0x7f800001U, 0x7fffffffU, 0x3f808000U, 0x3f818000U, 0x3f808001U, 0x3f807fffU, 0x00008000U, 0x00018000U,
          0x7f7f8000U, 0x3f801000U, 0x3f803000U, 0x3f801001U, 0x33000000U, 0x33000001U, 0x32ffffffU, 0x33800000U,
          0x33c00000U, 0x387fffffU, 0x38800000U, 0x387fe000U, 0x387fdfffU, 0x387ff000U, 0x38000000U})
        values.push_back(std::bit_cast<float>(bits));
    for (std::size_t i = values.size(); i-- > 0;) values.push_back(-values[i]);
    for (const Format& format : kFormats)
        for (std::size_t skipped = 0; skipped < 5; ++skipped)
            EXPECT_TRUE(gives_reference(values, format, skipped)) << to_string(format.type) << " " << skipped;
}

// The reference itself, against known bits.
TEST(CastReference, KnowsTheWellKnownNumbers) {
    const auto half = [](float value) { return reference_cast(value, kFormats[0]); };
    EXPECT_EQ(half(1.0F), 0x3c00);
    EXPECT_EQ(half(-2.0F), 0xc000);
    EXPECT_EQ(half(65504.0F), 0x7bff);
    EXPECT_EQ(half(65520.0F), 0x7c00);
    EXPECT_EQ(half(std::ldexp(1.0F, -24)), 1);
    EXPECT_EQ(half(std::ldexp(1.0F, -25)), 0);
    const auto brain = [](float value) { return reference_cast(value, kFormats[1]); };
    EXPECT_EQ(brain(Limits::max()), 0x7f80);
    EXPECT_EQ(brain(std::bit_cast<float>(0x3f808000U)), 0x3f80);
    EXPECT_EQ(brain(std::bit_cast<float>(0x3f818000U)), 0x3f82);
}

TEST_P(CastContract, ConvertsAnyBitsAndAnyNumberOfThem) {
    for (const Format& format : kFormats) {
        EXPECT_TRUE(rc::check(to_string(format.type) + " of any float32", [&](const std::vector<std::uint32_t>& bits) {
            std::vector<float> values(bits.size());
            std::transform(bits.begin(), bits.end(), values.begin(),
                           [](std::uint32_t b) { return std::bit_cast<float>(b * 2654435761U); });
            RC_ASSERT(gives_reference(values, format, *rc::gen::inRange<std::size_t>(0, 4)));
        }));
        EXPECT_TRUE(gives_reference({}, format, 0));
        // Every exponent, and mantissas around the points where rounding changes.
        std::vector<float> swept;
        for (std::uint32_t exponent = 0; exponent < 256; ++exponent)
            for (const std::uint32_t mantissa : {0U, 1U, 0xfffU, 0x1000U, 0x1001U, 0x3000U, 0x7fffU, 0x8000U, 0x8001U,
                                                 0x18000U, 0x555555U, 0x7fefffU, 0x7ff000U, 0x7f8000U, 0x7fffffU})
                swept.push_back(std::bit_cast<float>(exponent << 23 | mantissa));
        EXPECT_TRUE(gives_reference(swept, format, 0));
    }
}

using CastContractDeathTest = CastContract;

TEST_P(CastContractDeathTest, RefusesOtherTypes) {
    EXPECT_DEATH(kernels::cast(*device().make_stream("cast"), nullptr, kFloat32, nullptr, 1), "float16 or bfloat16");
}

// --- class maps ---

struct Scores {
    std::int64_t rows, classes, height, width, upsample_factor;
    std::vector<float> values;

    std::size_t pixels() const {
        return static_cast<std::size_t>(rows * height * width * upsample_factor * upsample_factor);
    }
    const float* plane(std::int64_t row, std::int64_t c) const {
        return values.data() + (row * classes + c) * height * width;
    }
};

Scores made_up(std::int64_t rows, std::int64_t classes, std::int64_t height, std::int64_t width,
               std::int64_t upsample_factor) {
    Scores scores{rows, classes, height, width, upsample_factor, {}};
    scores.values.resize(static_cast<std::size_t>(rows * classes * height * width));
    std::uint32_t state = 5;
    for (float& value : scores.values) {
        state = state * 1664525U + 1013904223U;
        value = static_cast<float>(state >> 8U) * (16.0F / static_cast<float>(1U << 24U)) - 8.0F;
    }
    return scores;
}

// PyTorch's formula, in double or, fused where its CUDA kernel is, in float.
template <class Real>
Real enlarged(const float* plane, const Scores& scores, std::int64_t y, std::int64_t x) {
    if (scores.upsample_factor == 1) return static_cast<Real>(plane[y * scores.width + x]);
    const Real scale = Real{1} / static_cast<Real>(scores.upsample_factor);
    const auto place = [&](std::int64_t at) {
        return std::max(Real{0}, std::fma(scale, static_cast<Real>(at) + Real{0.5}, Real{-0.5}));
    };
    const auto y0 = static_cast<std::int64_t>(place(y));
    const auto x0 = static_cast<std::int64_t>(place(x));
    const std::int64_t y1 = std::min(y0 + 1, scores.height - 1);
    const std::int64_t x1 = std::min(x0 + 1, scores.width - 1);
    const Real h1 = place(y) - static_cast<Real>(y0);
    const Real w1 = place(x) - static_cast<Real>(x0);
    const auto at = [&](std::int64_t line, std::int64_t column) {
        return static_cast<Real>(plane[line * scores.width + column]);
    };
    const auto mix = [](Real a, Real wa, Real b, Real wb) { return std::fma(a, wa, b * wb); };
    return mix(mix(at(y0, x0), 1 - w1, at(y0, x1), w1), 1 - h1, mix(at(y1, x0), 1 - w1, at(y1, x1), w1), h1);
}

struct Reference {
    std::vector<std::uint8_t> ids;
    std::vector<double> probabilities;  // of the class; NaN: none
    std::size_t near_ties = 0;          // pixels whose class double arithmetic would choose otherwise
};

Reference reference_map(const Scores& scores) {
    Reference reference;
    for (std::int64_t row = 0; row < scores.rows; ++row)
        for (std::int64_t y = 0; y < scores.height * scores.upsample_factor; ++y)
            for (std::int64_t x = 0; x < scores.width * scores.upsample_factor; ++x) {
                std::vector<double> exact;
                std::vector<float> rounded;
                for (std::int64_t c = 0; c < scores.classes; ++c) {
                    exact.push_back(enlarged<double>(scores.plane(row, c), scores, y, x));
                    rounded.push_back(enlarged<float>(scores.plane(row, c), scores, y, x));
                }
                std::size_t best = 0;
                for (std::size_t c = 1; c < rounded.size(); ++c)
                    if (!std::isnan(rounded[best]) && (std::isnan(rounded[c]) || rounded[c] > rounded[best])) best = c;
                reference.ids.push_back(static_cast<std::uint8_t>(best));
                reference.near_ties +=
                    std::ranges::max_element(exact) - exact.begin() != static_cast<std::ptrdiff_t>(best);
                double sum = 0;
                for (const double score : exact) sum += std::exp(score - exact[best]);
                reference.probabilities.push_back(1 / sum);
            }
    return reference;
}

class ClassMapContract : public DeviceContract {
  protected:
    struct Result {
        std::vector<std::uint8_t> ids, confidence;
    };
    // `offset`: the offset in bytes of the results in their buffers.
    Result map(const Scores& scores, bool with_confidence, std::size_t offset = 0) {
        const std::size_t bytes = offset + scores.pixels() + 1;
        const auto from = upload(bytes_of(scores.values));
        const auto ids = upload(std::vector<std::byte>(bytes, std::byte{0xab}));
        const auto confidence = upload(std::vector<std::byte>(bytes, std::byte{0xab}));
        const auto stream = device().make_stream("class map");
        kernels::map_classes(*stream, reinterpret_cast<std::uint8_t*>(ids->data() + offset),
                             with_confidence ? reinterpret_cast<std::uint8_t*>(confidence->data() + offset) : nullptr,
                             {.scores = reinterpret_cast<const float*>(from->data()),
                              .rows = scores.rows,
                              .classes = scores.classes,
                              .height = scores.height,
                              .width = scores.width,
                              .upsample_factor = scores.upsample_factor});
        stream->synchronize();
        return {between_guards(download(*ids), offset), between_guards(download(*confidence), offset)};
    }

    void expect_reference(const Scores& scores, std::size_t offset = 0) {
        SCOPED_TRACE(std::to_string(scores.rows) + "x" + std::to_string(scores.classes) + "x" +
                     std::to_string(scores.height) + "x" + std::to_string(scores.width) + " by " +
                     std::to_string(scores.upsample_factor) + "+" + std::to_string(offset));
        const Reference reference = reference_map(scores);
        EXPECT_LE(reference.near_ties * 1000, reference.ids.size());
        EXPECT_TRUE(map(scores, false, offset).ids == reference.ids);
        const Result result = map(scores, true, offset);
        EXPECT_TRUE(result.ids == reference.ids);
        double worst = 0;
        for (std::size_t i = 0; i < reference.ids.size(); ++i)
            worst = std::max(worst, std::abs(result.confidence[i] - 255 * reference.probabilities[i]));
        EXPECT_LE(worst, 0.5 + 1e-3);
    }

  private:
    static std::vector<std::uint8_t> between_guards(const std::vector<std::byte>& bytes, std::size_t offset) {
        for (std::size_t i = 0; i < offset; ++i) EXPECT_EQ(bytes[i], std::byte{0xab});
        EXPECT_EQ(bytes.back(), std::byte{0xab});
        const auto* const first = reinterpret_cast<const std::uint8_t*>(bytes.data());
        return {first + offset, first + bytes.size() - 1};
    }
};

TEST_P(ClassMapContract, IsTheFirstClassWithTheLargestScore) {
    for (const std::int64_t upsample_factor : {1, 2, 3, 8, 16}) {
        expect_reference(made_up(2, 21, 5, 7, upsample_factor));
        expect_reference(made_up(3, 1, 2, 2, upsample_factor));
        expect_reference(made_up(1, 256, 1, 3, upsample_factor));
        expect_reference(made_up(2, 2, 4, 1, upsample_factor));
    }
    expect_reference(made_up(1, 21, 16, 16, 8));
    expect_reference(made_up(1, 150, 24, 40, 4));
}

TEST_P(ClassMapContract, WritesResultsThatStartAnywhere) {
    for (const std::size_t offset : {1U, 2U, 4U}) expect_reference(made_up(1, 5, 3, 4, 8), offset);
}

TEST_P(ClassMapContract, TheFirstOfEqualScoresWins) {
    for (const std::int64_t upsample_factor : {1, 8}) {
        Scores scores = made_up(1, 6, 3, 3, upsample_factor);
        std::copy_n(scores.values.begin() + 9, 9, scores.values.begin() + 36);  // class 4 is class 1
        for (std::size_t i = 9; i < 18; ++i) scores.values[i] = scores.values[i + 27] = 9.0F;
        const Result result = map(scores, true);
        EXPECT_TRUE(std::ranges::all_of(result.ids, [](std::uint8_t id) { return id == 1; }));
        EXPECT_TRUE(std::ranges::all_of(result.confidence, [](std::uint8_t c) { return c <= 128; }));
        std::ranges::fill(scores.values, -0.5F);
        const Result equal = map(scores, true);
        EXPECT_TRUE(std::ranges::all_of(equal.ids, [](std::uint8_t id) { return id == 0; }));
        EXPECT_TRUE(std::ranges::all_of(equal.confidence, [](std::uint8_t c) { return c == 43; }));  // 255 / 6 is 42.5
    }
}

TEST_P(ClassMapContract, ANaNIsTheLargestAndHasNoConfidence) {
    Scores scores = made_up(1, 3, 1, 4, 1);
    // Two NaNs, a NaN after infinity, both infinities, only -infinity.
    constexpr float kInf = Limits::infinity();
    constexpr float kNaN = Limits::quiet_NaN();
    scores.values = {1, kInf, -kInf, -kInf, /**/ kNaN, 2, 3, -kInf, /**/ kNaN, kNaN, 1, -kInf};
    const Result result = map(scores, true);
    EXPECT_EQ(result.ids, (std::vector<std::uint8_t>{1, 2, 1, 0}));
    EXPECT_EQ(result.confidence, (std::vector<std::uint8_t>{0, 0, 225, 0}));  // 255 / (1 + e^-2) is 224.6
}

TEST_P(ClassMapContract, MapsNothing) { EXPECT_TRUE(map(made_up(0, 3, 4, 4, 8), true).ids.empty()); }

using ClassMapContractDeathTest = ClassMapContract;

TEST_P(ClassMapContractDeathTest, RefusesOtherTensors) {
    EXPECT_DEATH(map(made_up(1, 257, 1, 1, 1), false), "1 to 256 classes");
    EXPECT_DEATH(map(made_up(1, 2, 1, 1, 0), false), "rows and columns");
}

// --- one channel ---

class ForegroundMapContract : public DeviceContract {
  protected:
    struct Result {
        std::vector<std::uint8_t> ids, confidence;
        std::vector<float> outliers;
    };
    static constexpr float kUntouched = -77;

    Result map(const Scores& scores, const ForegroundScale& scale, bool with_confidence) {
        const auto from = upload(bytes_of(scores.values));
        const auto ids = upload(std::vector<std::byte>(scores.pixels() + 1, std::byte{0xab}));
        const auto confidence = upload(std::vector<std::byte>(scores.pixels() + 1, std::byte{0xab}));
        const auto outliers =
            device().allocate_pinned_host(static_cast<std::size_t>(scores.rows + 1) * sizeof(float), "outliers");
        auto* const outlier_of_row = reinterpret_cast<float*>(outliers->data());
        std::fill_n(outlier_of_row, scores.rows + 1, kUntouched);
        const auto stream = device().make_stream("foreground map");
        kernels::map_foreground(*stream, reinterpret_cast<std::uint8_t*>(ids->data()),
                                with_confidence ? reinterpret_cast<std::uint8_t*>(confidence->data()) : nullptr,
                                outlier_of_row,
                                {.scores = reinterpret_cast<const float*>(from->data()),
                                 .rows = scores.rows,
                                 .height = scores.height,
                                 .width = scores.width,
                                 .upsample_factor = scores.upsample_factor,
                                 .scale = scale});
        stream->synchronize();
        return {bytes_before_guard(download(*ids)),
                bytes_before_guard(download(*confidence)),
                {outlier_of_row, outlier_of_row + scores.rows + 1}};
    }

    static std::vector<float> of_rows(const Result& result) {
        EXPECT_EQ(result.outliers.back(), kUntouched) << "behind the last row";
        return {result.outliers.begin(), result.outliers.end() - 1};
    }

    static double probability_of(double score, bool logit) { return logit ? 1 / (1 + std::exp(-score)) : score; }

    // `scores`, or for probabilities mapped into 0 to 1.
    void expect_reference(Scores scores, const ForegroundScale& scale) {
        SCOPED_TRACE(std::to_string(scores.height) + "x" + std::to_string(scores.width) + " by " +
                     std::to_string(scores.upsample_factor));
        if (!scale.logit)
            for (float& value : scores.values) value = (value + 8) / 16;
        const Result plain = map(scores, scale, false);
        const Result result = map(scores, scale, true);
        EXPECT_TRUE(plain.ids == result.ids);
        double worst = 0;
        std::size_t at = 0;
        for (std::int64_t row = 0; row < scores.rows; ++row)
            for (std::int64_t y = 0; y < scores.height * scores.upsample_factor; ++y)
                for (std::int64_t x = 0; x < scores.width * scores.upsample_factor; ++x, ++at) {
                    const auto rounded = enlarged<float>(scores.plane(row, 0), scores, y, x);
                    const bool foreground = rounded >= scale.least;
                    ASSERT_EQ(result.ids[at], foreground ? 1 : 0) << rounded;
                    const double probability =
                        probability_of(enlarged<double>(scores.plane(row, 0), scores, y, x), scale.logit);
                    worst = std::max(
                        worst, std::abs(result.confidence[at] - 255 * (foreground ? probability : 1 - probability)));
                }
        EXPECT_LE(worst, 0.5 + 1e-3);
        EXPECT_THAT(of_rows(result), testing::Each(0.0F));
    }

  private:
    static std::vector<std::uint8_t> bytes_before_guard(const std::vector<std::byte>& bytes) {
        EXPECT_EQ(bytes.back(), std::byte{0xab});
        const auto* const first = reinterpret_cast<const std::uint8_t*>(bytes.data());
        return {first, first + bytes.size() - 1};
    }
};

TEST_P(ForegroundMapContract, IsOneFromTheThresholdWithTheWinningProbability) {
    for (const std::int64_t upsample_factor : {1, 2, 8})
        for (const char* scores : {"probability", "logit"})
            for (const double threshold : {0.5, 0.3, 0.9})
                expect_reference(made_up(3, 1, 5, 7, upsample_factor), ForegroundScale::of(scores, threshold));
}

TEST_P(ForegroundMapContract, TheThresholdItselfIsForeground) {
    Scores scores = made_up(1, 1, 1, 4, 1);
    scores.values = {0.5F, std::nextafter(0.5F, 0.0F), 0.0F, 1.0F};
    const Result result = map(scores, ForegroundScale::of("probability", 0.5), true);
    EXPECT_EQ(result.ids, (std::vector<std::uint8_t>{1, 0, 0, 1}));
    EXPECT_EQ(result.confidence, (std::vector<std::uint8_t>{128, 128, 255, 255}));
    scores.values = {0.0F, -1.0F, -Limits::infinity(), Limits::infinity()};
    const Result logits = map(scores, ForegroundScale::of("logit", 0.5), true);
    EXPECT_EQ(logits.ids, (std::vector<std::uint8_t>{1, 0, 0, 1}));
    EXPECT_EQ(logits.confidence, (std::vector<std::uint8_t>{128, 186, 255, 255}));
}

TEST_P(ForegroundMapContract, ImpossibleScoresAreReportedPerRow) {
    for (const std::int64_t upsample_factor : {1, 8}) {
        Scores scores = made_up(4, 1, 2, 2, upsample_factor);
        std::ranges::fill(scores.values, 0.25F);
        scores.values[2 * 4 + 1] = 7.5F;
        scores.values[3 * 4] = Limits::quiet_NaN();
        const Result probabilities = map(scores, ForegroundScale::of("probability", 0.5), true);
        EXPECT_THAT(std::vector(probabilities.outliers.begin(), probabilities.outliers.begin() + 2),
                    testing::Each(0.0F));
        EXPECT_GT(probabilities.outliers[2], 1.0F);
        EXPECT_TRUE(std::isnan(probabilities.outliers[3]));
        EXPECT_EQ(probabilities.outliers[4], kUntouched) << "behind the last row";
        const Result logits = map(scores, ForegroundScale::of("logit", 0.5), false);
        EXPECT_EQ(logits.outliers[2], 0);
        EXPECT_TRUE(std::isnan(logits.outliers[3]));
    }
}

// Dropping a batch does not wait for its work: the outliers of that work must not show in the next batch, which
// gets the same memory.
TEST_P(ForegroundMapContract, OutliersOfEarlierWorkInTheSameMemoryDoNotShow) {
    Scores wrong = made_up(64, 1, 64, 64, 8);
    std::ranges::fill(wrong.values, Limits::quiet_NaN());
    Scores right = wrong;
    std::ranges::fill(right.values, 0.25F);
    const auto ids = device().allocate(wrong.pixels(), "ids");
    const auto outliers = device().allocate_pinned_host(64 * sizeof(float), "outliers");
    auto* const outlier_of_row = reinterpret_cast<float*>(outliers->data());
    const auto stream = device().make_stream("foreground map");
    const auto from_wrong = upload(bytes_of(wrong.values));
    const auto from_right = upload(bytes_of(right.values));
    for (const auto* from : {&from_wrong, &from_wrong, &from_wrong, &from_right})
        kernels::map_foreground(*stream, reinterpret_cast<std::uint8_t*>(ids->data()), nullptr, outlier_of_row,
                                {.scores = reinterpret_cast<const float*>((*from)->data()),
                                 .rows = 64,
                                 .height = 64,
                                 .width = 64,
                                 .upsample_factor = 8,
                                 .scale = ForegroundScale::of("auto", 0.5)});
    stream->synchronize();
    EXPECT_THAT(std::vector(outlier_of_row, outlier_of_row + 64), testing::Each(0.0F));
}

TEST_P(ForegroundMapContract, MapsNothing) {
    EXPECT_TRUE(map(made_up(0, 1, 4, 4, 8), ForegroundScale::of("auto", 0.5), true).ids.empty());
}

class PicturesContract : public DeviceContract {
  protected:
    // The consumers' formula, rounded after each step.
    static std::uint8_t reference(float number, const PixelRange& range) {
        const float share = (number - range.black) / (range.white - range.black);
        const volatile float scaled = std::clamp(share, 0.0F, 1.0F) * 255.0F;
        const volatile float above = scaled + 0.5F;
        return static_cast<std::uint8_t>(above);
    }
    struct Made {
        std::vector<std::uint8_t> pixels;
        std::vector<float> outliers;
    };
    Made pixels_of(const DeviceBuffer& numbers, const kernels::PictureNumbers& input) {
        const auto elements = static_cast<std::size_t>(input.rows * input.per_row);
        const auto pixels = upload(std::vector<std::byte>(elements + 1, std::byte{0xab}));
        const auto outliers = device().allocate_pinned_host(static_cast<std::size_t>(input.rows) * 4, "outliers");
        std::memset(outliers->data(), 0x55, outliers->bytes());
        kernels::PictureNumbers given = input;
        given.numbers = numbers.data();
        const auto stream = device().make_stream("pixels");
        kernels::make_pixels(*stream, reinterpret_cast<std::uint8_t*>(pixels->data()),
                             reinterpret_cast<float*>(outliers->data()), given);
        stream->synchronize();
        Made made;
        for (const std::byte pixel : download(*pixels)) made.pixels.push_back(static_cast<std::uint8_t>(pixel));
        EXPECT_EQ(made.pixels.back(), 0xab);
        made.pixels.pop_back();
        const auto* const first = reinterpret_cast<const float*>(outliers->data());
        made.outliers.assign(first, first + input.rows);
        return made;
    }
};

// Each number at which a pixel changes, and its neighbours.
TEST_P(PicturesContract, RoundsEachStep) {
    for (const char* name : {"0:1", "-1:1", "0:255"}) {
        const PixelRange range = PixelRange::named(name);
        std::vector<float> numbers;
        for (int half = -60; half <= 2 * 255 + 60; ++half) {
            float number = range.black + (range.white - range.black) * static_cast<float>(half) / 510.0F;
            for (int i = 0; i < 8; ++i) number = std::nextafter(number, -Limits::max());
            for (int i = 0; i < 16; ++i) numbers.push_back(number = std::nextafter(number, Limits::max()));
        }
        std::vector<std::uint8_t> expected;
        for (const float number : numbers) expected.push_back(reference(number, range));
        const auto per_row = static_cast<std::int64_t>(numbers.size() / 2);
        const Made made =
            pixels_of(*upload(bytes_of(numbers)), {.dtype = kFloat32, .rows = 2, .per_row = per_row, .range = range});
        EXPECT_EQ(made.pixels, expected) << name;
        EXPECT_THAT(made.outliers, testing::ElementsAre(0, 0));
    }
}

TEST_P(PicturesContract, ReadsNumbersOf16Bits) {
    for (const DType type : {kFloat16, kBFloat16}) {
        std::vector<std::uint16_t> bits;
        std::vector<std::uint8_t> expected;
        for (std::uint32_t i = 0; i <= 0xffff; ++i) {
            const auto half = static_cast<std::uint16_t>(i);
            const float number = type == kFloat16 ? float_of_float16(half) : float_of_bfloat16(half);
            if (!PixelRange::has_pixel(number)) continue;
            bits.push_back(half);
            expected.push_back(reference(number, {}));
        }
        const Made made =
            pixels_of(*upload(bytes_of(bits)),
                      {.dtype = type, .rows = 1, .per_row = static_cast<std::int64_t>(bits.size()), .range = {}});
        EXPECT_EQ(made.pixels, expected) << to_string(type);
    }
}

TEST_P(PicturesContract, ReportsANumberOfEachRowThatHasNoPixel) {
    const std::vector<float> numbers{0, 1, 2, -1.5F, 2.1F, 0, 0, Limits::quiet_NaN(), 1, 1, Limits::infinity(), 0};
    const Made made = pixels_of(*upload(bytes_of(numbers)),
                                {.dtype = kFloat32, .rows = 6, .per_row = 2, .range = {.black = -1, .white = 1}});
    EXPECT_EQ(made.outliers[0], 0);
    EXPECT_EQ(made.outliers[1], 0);
    EXPECT_EQ(made.outliers[2], 2.1F);
    EXPECT_TRUE(std::isnan(made.outliers[3]));
    EXPECT_EQ(made.outliers[4], 0);
    EXPECT_EQ(made.outliers[5], Limits::infinity());
}

INSTANTIATE_TEST_SUITE_P(Device, PicturesContract, testing::ValuesIn(devices_under_test()), device_name);
INSTANTIATE_TEST_SUITE_P(Device, ForegroundMapContract, testing::ValuesIn(devices_under_test()), device_name);
INSTANTIATE_TEST_SUITE_P(Device, CastContract, testing::ValuesIn(devices_under_test()), device_name);
INSTANTIATE_TEST_SUITE_P(Device, CastContractDeathTest, testing::ValuesIn(devices_under_test()), device_name);
INSTANTIATE_TEST_SUITE_P(Device, ClassMapContract, testing::ValuesIn(devices_under_test()), device_name);
INSTANTIATE_TEST_SUITE_P(Device, ClassMapContractDeathTest, testing::ValuesIn(devices_under_test()), device_name);

}  // namespace
}  // namespace offramp
