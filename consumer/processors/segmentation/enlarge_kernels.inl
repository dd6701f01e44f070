// Included by one .cpp for each instruction set. Nothing here may use a function that is not local to the
// file: the linker would keep one copy of it for all, perhaps the one that not every machine can run.

namespace offramp {
namespace {

// common/numerics/enlargement.hpp's blend.
inline float blended(float first, float second, float first_weight, float second_weight) {
    return __builtin_fmaf(first, first_weight, second * second_weight);
}

void enlarge_across(const float* from, const Taps* taps, std::size_t count, float* to) {
    for (std::size_t i = 0; i < count; ++i)
        to[i] = blended(from[taps[i].first], from[taps[i].second], taps[i].first_weight, taps[i].second_weight);
}

void enlarge_down(const float* upper, const float* lower, const Taps& row, std::size_t count, float* to) {
    const float upper_weight = row.first_weight;
    const float lower_weight = row.second_weight;
    for (std::size_t i = 0; i < count; ++i) to[i] = blended(upper[i], lower[i], upper_weight, lower_weight);
}

}  // namespace

const EnlargeKernels OFFRAMP_ENLARGE_KERNELS = {enlarge_across, enlarge_down};

}  // namespace offramp
