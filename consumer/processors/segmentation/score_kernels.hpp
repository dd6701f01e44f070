#pragma once

#include <cstddef>
#include <cstdint>

#include "common/numerics/enlargement.hpp"

namespace offramp {

// The inner loops of ClassArgmax, compiled for every machine and for AVX2. The score of class c and pixel i is scores[c
// * class_stride + i]. ids[i] becomes the first class with the largest score, where NaN counts as largest.
struct ArgmaxKernels {
    void (*float32)(const float* scores, std::ptrdiff_t class_stride, int classes, std::size_t pixels,
                    std::uint8_t* ids);
    // 16-bit floats as their bits; `infinity`: 0x7c00 for float16, 0x7f80 for bfloat16.
    void (*float16)(const std::uint16_t* scores, std::ptrdiff_t class_stride, int classes, std::size_t pixels,
                    std::int16_t infinity, std::uint8_t* ids);
    // Transposes pixels with adjacent classes to the order above: to[c * to_stride + i] = from[i * pixel_stride + c].
    void (*transpose32)(const float* from, std::ptrdiff_t pixel_stride, int classes, std::size_t pixels, float* to,
                        std::ptrdiff_t to_stride);
    void (*transpose16)(const std::uint16_t* from, std::ptrdiff_t pixel_stride, int classes, std::size_t pixels,
                        std::uint16_t* to, std::ptrdiff_t to_stride);
};

extern const ArgmaxKernels kBaselineArgmax;
extern const ArgmaxKernels kAvx2Argmax;  // x86-64 only

// The inner loops of EnlargedSample, compiled for every machine and for AVX2 with fused multiply-add; results are
// bit-identical.
struct EnlargeKernels {
    // to[i] = blend(from[taps[i].first], from[taps[i].second], taps[i])
    void (*across)(const float* from, const Taps* taps, std::size_t count, float* to);
    // to[i] = blend(upper[i], lower[i], row)
    void (*down)(const float* upper, const float* lower, const Taps& row, std::size_t count, float* to);
};

extern const EnlargeKernels kBaselineEnlarge;
extern const EnlargeKernels kAvx2Enlarge;      // x86-64 only
const EnlargeKernels& best_enlarge_kernels();  // the best that this machine supports

}  // namespace offramp
