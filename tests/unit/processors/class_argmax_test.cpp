#include "consumer/processors/segmentation/class_argmax.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace offramp {
namespace {

float to_float(std::uint16_t bits, DType dtype) {
    if (dtype == kBFloat16) return std::bit_cast<float>(std::uint32_t{bits} << 16U);
    const int exponent = (bits >> 10U) & 31;
    const float fraction = static_cast<float>(bits & 1023U);
    const float sign = (bits & 0x8000U) != 0 ? -1.0F : 1.0F;
    if (exponent == 31)
        return fraction != 0 ? std::numeric_limits<float>::quiet_NaN() : sign * std::numeric_limits<float>::infinity();
    if (exponent == 0) return sign * std::ldexp(fraction, -24);
    return sign * std::ldexp(1024.0F + fraction, exponent - 25);
}

// PyTorch's rule: a NaN beats every number, the first of equals wins.
std::uint8_t naive_argmax(const std::vector<float>& scores) {
    std::size_t best = 0;
    for (std::size_t c = 1; c < scores.size(); ++c) {
        if (std::isnan(scores[best])) break;
        if (std::isnan(scores[c]) || scores[c] > scores[best]) best = c;
    }
    return static_cast<std::uint8_t>(best);
}

struct Image {
    ClassScores scores;
    std::vector<std::uint32_t> storage;  // 32-bit or 16-bit elements, aligned for both

    float at(std::int64_t c, std::int64_t y, std::int64_t x) const {
        const auto index = c * scores.class_stride + y * scores.row_stride + x * scores.column_stride;
        if (scores.dtype == kFloat32) return reinterpret_cast<const float*>(scores.data)[index];
        return to_float(reinterpret_cast<const std::uint16_t*>(scores.data)[index], scores.dtype);
    }
};

// Few different values, so that ties, NaNs, infinities and both zeros occur often.
std::uint32_t score_bits(DType dtype, std::uint32_t pick) {
    static constexpr float kValues[] = {0.0F, -0.0F, 1.0F, -1.0F, 1.5F, -2.25F, 1e-7F, -1e-7F, 60000.0F};
    if (dtype == kFloat32) {
        if (pick % 16 == 9) return 0x7fc00000U;
        if (pick % 16 == 10) return 0xffc12345U;
        if (pick % 16 == 11) return 0x7f800000U;
        if (pick % 16 == 12) return 0xff800000U;
        return std::bit_cast<std::uint32_t>(kValues[pick % 9]);
    }
    return pick & 0xffffU;  // every pattern of 16 bits is a number, an infinity or a NaN
}

Image make_image(DType dtype, std::int64_t classes, std::int64_t height, std::int64_t width,
                 const std::array<int, 3>& order, std::uint32_t seed, bool few_values) {
    Image image;
    image.scores = {.dtype = dtype, .classes = classes, .height = height, .width = width};
    // `order`: class (0), row (1) and column (2), from slowest to fastest.
    const std::int64_t extents[] = {classes, height, width};
    std::int64_t* const strides[] = {&image.scores.class_stride, &image.scores.row_stride, &image.scores.column_stride};
    std::int64_t stride = 1;
    for (std::size_t d = 3; d-- > 0;) {
        *strides[order[d]] = stride;
        stride *= extents[order[d]];
    }
    image.storage.resize(static_cast<std::size_t>(stride));
    image.scores.data = reinterpret_cast<const std::byte*>(image.storage.data());
    std::uint32_t state = seed;
    static constexpr std::uint32_t kFew[] = {0x0000, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00,
                                             0x7e00, 0xfe01, 0x7f80, 0xff80, 0x7fc0};
    for (std::size_t i = 0; i < image.storage.size(); ++i) {
        state = state * 1664525U + 1013904223U;
        const std::uint32_t pick = state >> 16U;
        if (dtype == kFloat32) {
            image.storage[i] =
                few_values ? score_bits(dtype, pick) : std::bit_cast<std::uint32_t>(static_cast<float>(pick));
        } else {
            const std::uint32_t bits = few_values ? kFew[pick % std::size(kFew)] : score_bits(dtype, pick);
            reinterpret_cast<std::uint16_t*>(image.storage.data())[i] = static_cast<std::uint16_t>(bits);
        }
    }
    return image;
}

std::vector<std::uint8_t> expected_ids(const Image& image) {
    std::vector<std::uint8_t> ids;
    std::vector<float> scores(static_cast<std::size_t>(image.scores.classes));
    for (std::int64_t y = 0; y < image.scores.height; ++y)
        for (std::int64_t x = 0; x < image.scores.width; ++x) {
            for (std::int64_t c = 0; c < image.scores.classes; ++c)
                scores[static_cast<std::size_t>(c)] = image.at(c, y, x);
            ids.push_back(naive_argmax(scores));
        }
    return ids;
}

std::vector<const ArgmaxKernels*> kernels_of_this_machine() {
    std::vector<const ArgmaxKernels*> kernels{&kBaselineArgmax};
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) kernels.push_back(&kAvx2Argmax);
#endif
    return kernels;
}

void check(const Image& image, std::int64_t rows_at_once) {
    const auto wanted = expected_ids(image);
    for (const ArgmaxKernels* kernels : kernels_of_this_machine()) {
        ClassArgmax argmax(*kernels);
        std::vector<std::uint8_t> ids(wanted.size(), 99);
        for (std::int64_t y = 0; y < image.scores.height; y += rows_at_once) {
            const std::int64_t rows = std::min(rows_at_once, image.scores.height - y);
            argmax.run(image.scores, y, rows,
                       std::span(ids).subspan(static_cast<std::size_t>(y * image.scores.width),
                                              static_cast<std::size_t>(rows * image.scores.width)));
        }
        RC_ASSERT(ids == wanted);
    }
}

constexpr std::array<std::array<int, 3>, 6> kOrders = {
    {{0, 1, 2}, {1, 2, 0}, {0, 2, 1}, {2, 1, 0}, {1, 0, 2}, {2, 0, 1}}};

RC_GTEST_PROP(ClassArgmax, IsTheNaiveOneForAllTypesAndStrides, ()) {
    const auto dtype = *rc::gen::element(kFloat32, kFloat16, kBFloat16);
    const auto order = *rc::gen::elementOf(kOrders);
    const auto classes = *rc::gen::inRange<std::int64_t>(1, 30);
    const auto height = *rc::gen::inRange<std::int64_t>(1, 20);
    const auto width = *rc::gen::inRange<std::int64_t>(1, 90);
    const auto seed = *rc::gen::arbitrary<std::uint32_t>();
    const auto few = *rc::gen::arbitrary<bool>();
    check(make_image(dtype, classes, height, width, order, seed, few), *rc::gen::inRange<std::int64_t>(1, 21));
}

TEST(ClassArgmax, KeepsAllIdsOf256Classes) {
    for (const DType dtype : {kFloat32, kFloat16, kBFloat16})
        for (const auto& order : kOrders) check(make_image(dtype, 256, 9, 700, order, 5, false), 4);
}

TEST(ClassArgmax, WorksAcrossBlocks) {
    for (const DType dtype : {kFloat32, kFloat16, kBFloat16})
        check(make_image(dtype, 3, 50, 100, kOrders[0], 6, true), 50);
}

}  // namespace
}  // namespace offramp
