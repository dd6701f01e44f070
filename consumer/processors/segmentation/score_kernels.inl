// Included by one .cpp for each instruction set. Nothing here may use a function that is not local to the
// file: the linker would keep one copy of it for all, perhaps the one that not every machine can run.

namespace offramp {
namespace {

// Pixels processed together: scores and ids of the best class so far stay in the first-level cache.
constexpr std::size_t kBlock = 1024;

void argmax_float32(const float* scores, std::ptrdiff_t class_stride, int classes, std::size_t pixels,
                    std::uint8_t* ids) {
    alignas(64) float best[kBlock];
    alignas(64) std::int32_t best_id[kBlock];
    for (std::size_t start = 0; start < pixels; start += kBlock) {
        const std::size_t count = pixels - start < kBlock ? pixels - start : kBlock;
        for (std::size_t i = 0; i < count; ++i) best[i] = scores[start + i];
        for (std::size_t i = 0; i < count; ++i) best_id[i] = 0;
        for (std::int32_t id = 1; id < classes; ++id) {
            const float* plane = scores + id * class_stride + start;
            for (std::size_t i = 0; i < count; ++i) {
                const float score = plane[i];
                const float most = best[i];
                // True also for a NaN against a number, false for anything against a NaN.
                const bool larger = !(score <= most) & (most == most);
                best[i] = larger ? score : most;
                best_id[i] = larger ? id : best_id[i];
            }
        }
        for (std::size_t i = 0; i < count; ++i) ids[start + i] = static_cast<std::uint8_t>(best_id[i]);
    }
}

// The bits of a 16-bit float as an integer of the same order; all NaNs become the largest, both zeros the
// same.
inline std::int16_t ordered(std::uint16_t bits, std::int16_t infinity) {
    const auto magnitude = static_cast<std::int16_t>(bits & 0x7fff);
    const auto sign = static_cast<std::int16_t>(static_cast<std::int16_t>(bits) >> 15);  // 0 or -1
    const auto value = static_cast<std::int16_t>((magnitude ^ sign) - sign);
    return magnitude > infinity ? std::int16_t{0x7fff} : value;
}

void argmax_float16(const std::uint16_t* scores, std::ptrdiff_t class_stride, int classes, std::size_t pixels,
                    std::int16_t infinity, std::uint8_t* ids) {
    alignas(64) std::int16_t best[kBlock];
    alignas(64) std::int16_t best_id[kBlock];
    for (std::size_t start = 0; start < pixels; start += kBlock) {
        const std::size_t count = pixels - start < kBlock ? pixels - start : kBlock;
        for (std::size_t i = 0; i < count; ++i) best[i] = ordered(scores[start + i], infinity);
        for (std::size_t i = 0; i < count; ++i) best_id[i] = 0;
        for (int c = 1; c < classes; ++c) {
            const std::uint16_t* plane = scores + c * class_stride + start;
            const auto id = static_cast<std::int16_t>(c);
            for (std::size_t i = 0; i < count; ++i) {
                const std::int16_t score = ordered(plane[i], infinity);
                const std::int16_t most = best[i];
                const bool larger = score > most;
                best[i] = larger ? score : most;
                best_id[i] = larger ? id : best_id[i];
            }
        }
        for (std::size_t i = 0; i < count; ++i) ids[start + i] = static_cast<std::uint8_t>(best_id[i]);
    }
}

template <class Word>
void transpose(const Word* from, std::ptrdiff_t pixel_stride, int classes, std::size_t pixels, Word* to,
               std::ptrdiff_t to_stride) {
    for (std::size_t i = 0; i < pixels; ++i) {
        const Word* pixel = from + static_cast<std::ptrdiff_t>(i) * pixel_stride;
        for (int c = 0; c < classes; ++c) to[c * to_stride + static_cast<std::ptrdiff_t>(i)] = pixel[c];
    }
}

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

const ArgmaxKernels OFFRAMP_ARGMAX_KERNELS = {argmax_float32, argmax_float16, transpose<float>,
                                              transpose<std::uint16_t>};

const EnlargeKernels OFFRAMP_ENLARGE_KERNELS = {enlarge_across, enlarge_down};

}  // namespace offramp
