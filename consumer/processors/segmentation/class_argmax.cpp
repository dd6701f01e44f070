#include "consumer/processors/segmentation/class_argmax.hpp"

#include <algorithm>
#include <type_traits>

#include "common/base/error.hpp"
#include "common/wire/output_forms.hpp"

namespace offramp {
namespace {

const ArgmaxKernels& best_kernels() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) return kAvx2Argmax;
#endif
    return kBaselineArgmax;
}

// The number of pixels to reorder together: their scores fill about a first-level cache.
std::int64_t scratch_pixels(std::int64_t classes, std::size_t word_bytes) {
    const std::int64_t fitting = (std::int64_t{24} << 10U) / (classes * static_cast<std::int64_t>(word_bytes));
    return std::clamp<std::int64_t>(fitting / 16 * 16, 16, 512);
}

}  // namespace

ClassArgmax::ClassArgmax() : kernels_(&best_kernels()) {}

void ClassArgmax::run(const ClassScores& scores, std::int64_t first_row, std::int64_t rows,
                      std::span<std::uint8_t> ids) {
    expect(scores.classes >= 1 && scores.classes <= kMostClassesOfMasks, "1 to 256 classes");
    expect(ids.size() == static_cast<std::size_t>(rows * scores.width), "an id for every pixel");
    const auto line = [&](std::int64_t first_element, std::int64_t pixels, std::uint8_t* to) {
        if (scores.dtype == kFloat32) return run_line<float>(scores, first_element, pixels, to);
        expect(scores.dtype == kFloat16 || scores.dtype == kBFloat16, "scores are float32, float16 or bfloat16");
        run_line<std::uint16_t>(scores, first_element, pixels, to);
    };
    // Rows without a gap between them form one long line.
    if (scores.row_stride == scores.width * scores.column_stride)
        return line(first_row * scores.row_stride, rows * scores.width, ids.data());
    for (std::int64_t row = 0; row < rows; ++row)
        line((first_row + row) * scores.row_stride, scores.width, ids.data() + row * scores.width);
}

template <class Word>
void ClassArgmax::run_line(const ClassScores& scores, std::int64_t first_element, std::int64_t pixels,
                           std::uint8_t* ids) {
    const auto* from = reinterpret_cast<const Word*>(scores.data) + first_element;
    if (scores.column_stride == 1)
        return reduce(from, scores.class_stride, scores, static_cast<std::size_t>(pixels), ids);

    const std::int64_t at_once = scratch_pixels(scores.classes, sizeof(Word));
    const std::int64_t scratch_stride =
        at_once + 16;  // avoids planes that begin a power of two apart, which would share few cache sets
    auto& scratch_of_words = [this]() -> std::vector<Word>& {
        if constexpr (std::is_same_v<Word, float>)
            return scratch32_;
        else
            return scratch16_;
    }();
    scratch_of_words.resize(static_cast<std::size_t>(scratch_stride * scores.classes));
    Word* scratch = scratch_of_words.data();
    for (std::int64_t start = 0; start < pixels; start += at_once) {
        const std::int64_t count = std::min(at_once, pixels - start);
        const Word* first = from + start * scores.column_stride;
        if (scores.class_stride == 1) {
            const auto transpose = [this] {
                if constexpr (std::is_same_v<Word, float>)
                    return kernels_->transpose32;
                else
                    return kernels_->transpose16;
            }();
            transpose(first, scores.column_stride, static_cast<int>(scores.classes), static_cast<std::size_t>(count),
                      scratch, scratch_stride);
        } else {
            for (std::int64_t c = 0; c < scores.classes; ++c)
                for (std::int64_t i = 0; i < count; ++i)
                    scratch[c * scratch_stride + i] = first[c * scores.class_stride + i * scores.column_stride];
        }
        reduce(scratch, scratch_stride, scores, static_cast<std::size_t>(count), ids + start);
    }
}

template <class Word>
void ClassArgmax::reduce(const Word* planes, std::ptrdiff_t class_stride, const ClassScores& scores, std::size_t pixels,
                         std::uint8_t* ids) const {
    const int classes = static_cast<int>(scores.classes);
    if constexpr (std::is_same_v<Word, float>) {
        kernels_->float32(planes, class_stride, classes, pixels, ids);
    } else {
        const std::int16_t infinity = scores.dtype == kFloat16 ? 0x7c00 : 0x7f80;
        kernels_->float16(planes, class_stride, classes, pixels, infinity, ids);
    }
}

}  // namespace offramp
