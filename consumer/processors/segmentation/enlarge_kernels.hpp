#pragma once

#include <cstddef>

#include "common/numerics/enlargement.hpp"

namespace offramp {

// The inner loops of EnlargedSample, compiled once for every machine and once for AVX2 with fused multiply-add; the
// bits are the same.
struct EnlargeKernels {
    // to[i] = blend(from[taps[i].first], from[taps[i].second], taps[i])
    void (*across)(const float* from, const Taps* taps, std::size_t count, float* to);
    // to[i] = blend(upper[i], lower[i], row)
    void (*down)(const float* upper, const float* lower, const Taps& row, std::size_t count, float* to);
};

extern const EnlargeKernels kBaselineEnlarge;
extern const EnlargeKernels kAvx2Enlarge;      // x86-64 only
const EnlargeKernels& best_enlarge_kernels();  // that this machine has

}  // namespace offramp
