#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/wire/tensor_spec.hpp"
#include "consumer/processors/segmentation/score_kernels.hpp"

namespace offramp {

// The location of one image's class scores; strides in elements. Borrows the bytes.
struct ClassScores {
    const std::byte* data = nullptr;  // aligned to the element
    DType dtype;                      // float32, float16 or bfloat16
    std::int64_t classes = 0;
    std::int64_t height = 0;
    std::int64_t width = 0;
    std::int64_t class_stride = 0;
    std::int64_t row_stride = 0;
    std::int64_t column_stride = 0;
};

// Finds each pixel's class as PyTorch's argmax over the channels does: the first of the largest scores, where NaN
// counts as largest. Accepts any order of dimensions. It is fast if pixels of a class (contiguous) or classes of a
// pixel (channels-last) are adjacent. Owns a scratch of a few cache lines per class. Thread: one.
class ClassArgmax {
  public:
    ClassArgmax();
    // For tests: uses the loops of one instruction set.
    explicit ClassArgmax(const ArgmaxKernels& kernels) : kernels_(&kernels) {}

    // Writes rows [first_row, first_row + rows) of the image to `ids`: rows times width ids.
    void run(const ClassScores& scores, std::int64_t first_row, std::int64_t rows, std::span<std::uint8_t> ids);

  private:
    template <class Word>
    void run_line(const ClassScores& scores, std::int64_t first_element, std::int64_t pixels, std::uint8_t* ids);
    template <class Word>
    void reduce(const Word* planes, std::ptrdiff_t class_stride, const ClassScores& scores, std::size_t pixels,
                std::uint8_t* ids) const;

    const ArgmaxKernels* kernels_;
    std::vector<float> scratch32_;
    std::vector<std::uint16_t> scratch16_;
};

}  // namespace offramp
