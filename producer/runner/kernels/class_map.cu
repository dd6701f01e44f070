#include "common/numerics/enlargement.hpp"
#include "producer/runner/kernels/class_confidence.hpp"
#include "producer/runner/kernels/launch.cuh"
#include "producer/runner/kernels/launches.hpp"

namespace offramp {
namespace {

// A thread finds the classes of a square of pixels between the same four scores: each class costs four loads, whatever
// the square's side. The large scores exist only in registers.

template <unsigned kSide>
struct Square {
    Taps columns[kSide], rows[kSide];
    std::int64_t first_pixel;  // of the output
    const float* scores;       // class 0 of its row of the batch
};

template <unsigned kSide>
__device__ Square<kSide> square_at(std::uint64_t index, const float* scores, const ClassMapPlan& plan) {
    const std::int32_t width = plan.width * plan.upsample_factor;
    const std::int32_t height = plan.height * plan.upsample_factor;
    const auto across = static_cast<std::uint32_t>(width) / kSide;
    const auto down = static_cast<std::uint32_t>(height) / kSide;
    const std::uint64_t line = index / across;
    const auto x = static_cast<std::int32_t>(index - line * across) * static_cast<std::int32_t>(kSide);
    const std::uint64_t row = line / down;
    const auto y = static_cast<std::int32_t>(line - row * down) * static_cast<std::int32_t>(kSide);
    Square<kSide> square;
#pragma unroll
    for (unsigned i = 0; i < kSide; ++i) {
        square.columns[i] = bilinear_taps(x + static_cast<std::int32_t>(i), plan.width, plan.scale);
        square.rows[i] = bilinear_taps(y + static_cast<std::int32_t>(i), plan.height, plan.scale);
    }
    square.first_pixel = (static_cast<std::int64_t>(row) * height + y) * width + x;
    square.scores = scores + static_cast<std::int64_t>(row) * plan.classes * plan.plane();
    return square;
}

// Calls take(class, pixel of the square, score) class by class.
template <unsigned kSide, bool kEnlarges, class Take>
__device__ void for_each_score(const Square<kSide>& square, const ClassMapPlan& plan, Take take) {
    const std::int64_t upper_line = std::int64_t{square.rows[0].first} * plan.width;
    const std::int64_t lower_line = std::int64_t{square.rows[0].second} * plan.width;
    const float* upper_left = square.scores + upper_line + square.columns[0].first;
    const float* upper_right = square.scores + upper_line + square.columns[0].second;
    const float* lower_left = square.scores + lower_line + square.columns[0].first;
    const float* lower_right = square.scores + lower_line + square.columns[0].second;
    std::int64_t at = 0;
#pragma unroll 2
    for (std::int32_t c = 0; c < plan.classes; ++c, at += plan.plane()) {
        if constexpr (!kEnlarges) {
            take(c, 0, upper_left[at]);
        } else {
            const float p00 = upper_left[at], p01 = upper_right[at];
            const float p10 = lower_left[at], p11 = lower_right[at];
            float upper[kSide], lower[kSide];
#pragma unroll
            for (unsigned x = 0; x < kSide; ++x) {
                upper[x] = blend(p00, p01, square.columns[x]);
                lower[x] = blend(p10, p11, square.columns[x]);
            }
#pragma unroll
            for (unsigned y = 0; y < kSide; ++y)
#pragma unroll
                for (unsigned x = 0; x < kSide; ++x) take(c, y * kSide + x, blend(upper[x], lower[x], square.rows[y]));
        }
    }
}

template <unsigned kSide>
__device__ void store(std::uint8_t* to, const Square<kSide>& square, std::int64_t width,
                      const std::uint8_t (&bytes)[kSide * kSide]) {
    if constexpr (kSide == 4) {
#pragma unroll
        for (unsigned y = 0; y < 4; ++y)
            *reinterpret_cast<uchar4*>(to + square.first_pixel + y * width) =
                make_uchar4(bytes[4 * y], bytes[4 * y + 1], bytes[4 * y + 2], bytes[4 * y + 3]);
    } else {
        static_assert(kSide == 1);
        to[square.first_pixel] = bytes[0];
    }
}

template <unsigned kSide, bool kEnlarges, bool kConfidence>
__global__ void map_classes(std::uint8_t* ids, std::uint8_t* confidence, const float* scores,
                            const __grid_constant__ ClassMapPlan plan, std::uint64_t squares) {
    constexpr unsigned kPixels = kSide * kSide;
    const std::int64_t width = std::int64_t{plan.width} * plan.upsample_factor;
    for (std::uint64_t i = first_index(); i < squares; i += index_step()) {
        const Square<kSide> square = square_at<kSide>(i, scores, plan);
        float most[kPixels];
        std::uint8_t bytes[kPixels];
        std::int32_t best[kPixels];
#pragma unroll
        for (unsigned p = 0; p < kPixels; ++p) {
            most[p] = -INFINITY;
            best[p] = 0;
        }
        for_each_score<kSide, kEnlarges>(square, plan, [&](std::int32_t c, unsigned p, float score) {
            // True also for a NaN against a number, false for anything against a NaN.
            const bool larger = !(score <= most[p]) && most[p] == most[p];
            most[p] = larger ? score : most[p];
            best[p] = larger ? c : best[p];
        });
#pragma unroll
        for (unsigned p = 0; p < kPixels; ++p) bytes[p] = static_cast<std::uint8_t>(best[p]);
        store<kSide>(ids, square, width, bytes);
        if constexpr (kConfidence) {
            float sum[kPixels] = {};
            for_each_score<kSide, kEnlarges>(square, plan, [&](std::int32_t, unsigned p, float score) {
                sum[p] += exp_of_nonpositive(score - most[p]);
            });
#pragma unroll
            for (unsigned p = 0; p < kPixels; ++p)
                bytes[p] = isfinite(most[p]) ? confidence_of(sum[p]) : std::uint8_t{0};
            store<kSide>(confidence, square, width, bytes);
        }
    }
}

// One channel: a thread per pixel. Each thread that finds an outlier writes it straight to the
// host; any one of them remains.
template <bool kEnlarges, bool kConfidence>
__global__ void map_foreground(std::uint8_t* ids, std::uint8_t* confidence, float* outliers, const float* scores,
                               const __grid_constant__ ForegroundPlan plan, std::uint64_t pixels) {
    for (std::uint64_t i = first_index(); i < pixels; i += index_step()) {
        const Square<1> square = square_at<1>(i, scores, plan.map);
        for_each_score<1, kEnlarges>(square, plan.map, [&](std::int32_t, unsigned, float score) {
            if (!plan.scale.allows(score)) outliers[i / static_cast<std::uint64_t>(plan.map.pixels_per_row())] = score;
            const bool foreground = score >= plan.scale.least;
            ids[i] = foreground ? 1 : 0;
            if constexpr (kConfidence) confidence[i] = foreground_confidence(score, foreground, plan.scale);
        });
    }
}

template <bool kEnlarges>
cudaError_t launch_pixels(cudaStream_t stream, std::uint8_t* ids, std::uint8_t* confidence, float* outliers,
                          const float* scores, const ForegroundPlan& plan) {
    const auto pixels = static_cast<std::uint64_t>(plan.map.pixels());
    if (confidence == nullptr)
        return launch(stream, pixels, map_foreground<kEnlarges, false>, ids, confidence, outliers, scores, plan,
                      pixels);
    return launch(stream, pixels, map_foreground<kEnlarges, true>, ids, confidence, outliers, scores, plan, pixels);
}

template <unsigned kSide, bool kEnlarges>
cudaError_t launch_squares(cudaStream_t stream, std::uint8_t* ids, std::uint8_t* confidence, const float* scores,
                           const ClassMapPlan& plan) {
    const auto squares = static_cast<std::uint64_t>(plan.pixels()) / (kSide * kSide);
    if (confidence == nullptr)
        return launch(stream, squares, map_classes<kSide, kEnlarges, false>, ids, confidence, scores, plan, squares);
    return launch(stream, squares, map_classes<kSide, kEnlarges, true>, ids, confidence, scores, plan, squares);
}

}  // namespace

cudaError_t launch_map_classes(cudaStream_t stream, std::uint8_t* ids, std::uint8_t* confidence, const float* scores,
                               const ClassMapPlan& plan) {
    if (plan.upsample_factor == 1) return launch_squares<1, false>(stream, ids, confidence, scores, plan);
    // Scores change at half a step of `upsample_factor` pixels: no 4 x 4 square crosses such a change.
    if (plan.upsample_factor % 8 == 0 && aligned(ids, 4) && aligned(confidence, 4))
        return launch_squares<4, true>(stream, ids, confidence, scores, plan);
    return launch_squares<1, true>(stream, ids, confidence, scores, plan);
}

cudaError_t launch_map_foreground(cudaStream_t stream, std::uint8_t* ids, std::uint8_t* confidence, float* outliers,
                                  const float* scores, const ForegroundPlan& plan) {
    if (plan.map.upsample_factor == 1) return launch_pixels<false>(stream, ids, confidence, outliers, scores, plan);
    return launch_pixels<true>(stream, ids, confidence, outliers, scores, plan);
}

}  // namespace offramp
