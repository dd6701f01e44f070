#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "consumer/processors/segmentation/class_argmax.hpp"
#include "consumer/processors/segmentation/score_kernels.hpp"

namespace offramp {

// Enlarges one sample of a low-resolution output on demand, bit for bit as the omitted last step of the model would on
// a GPU: PyTorch's upsample_bilinear2d(align_corners=False) in float32 (common/numerics/enlargement.hpp). 16-bit scores
// are widened first. Owns two enlarged lines and one result line of every class. Borrows the sample's bytes from
// begin() on. Thread: one.
class EnlargedSample {
  public:
    EnlargedSample();
    // For tests: uses the loops of one instruction set.
    explicit EnlargedSample(const EnlargeKernels& kernels) : kernels_(&kernels) {}

    // Accepts float32, float16 or bfloat16 scores with any strides; an enlarged side has at most kLongestEnlargedSide
    // pixels.
    void begin(const ClassScores& sample, std::uint32_t upsample_factor);

    std::int64_t height() const { return sample_.height * upsample_factor_; }
    std::int64_t width() const { return sample_.width * upsample_factor_; }

    // Line y of every class: float32 [classes, width()], valid until the next call. Ascending y reads and enlarges each
    // source line once.
    std::span<const float> line(std::int64_t y);
    // All lines: float32 [classes, height(), width()].
    void all(std::span<float> to);

  private:
    const float* enlarged_across(std::int32_t source_line);
    void read(std::int64_t c, std::int64_t source_line);

    const EnlargeKernels* kernels_;
    ClassScores sample_;
    std::int64_t upsample_factor_ = 1;
    float scale_ = 1;
    std::vector<Taps> columns_;
    std::vector<float> source_;  // one line of one class
    // lines enlarged horizontally, [classes, width()]: the even and the odd one
    std::array<std::vector<float>, 2> across_;
    std::array<std::int32_t, 2> across_of_{-1, -1};  // their source lines
    std::vector<float> result_;
};

// Resizes the scores of one sample, enlarged first if requested, to the size of a picture, as
// torch.nn.functional.interpolate(size=..., mode="bilinear") does; masks in the picture's size need this. Works line by
// line on some columns at a time. Owns three lines of these columns of every class, and those of an EnlargedSample.
// Borrows the sample's bytes from begin() on. Thread: one.
class ResizedScores {
  public:
    void begin(const ClassScores& sample, std::uint32_t upsample_factor, ImageSize size);
    // Selects the `count` columns from `first` on that line() returns.
    void take_columns(std::uint32_t first, std::uint32_t count);
    // Line y of every class: float32 [classes, count], valid until the next call. Ascending y reads each line of the
    // sample once.
    std::span<const float> line(std::uint32_t y);

  private:
    const float* brought_across(std::int32_t source_line);

    const EnlargeKernels* kernels_ = &best_enlarge_kernels();
    EnlargedSample sample_;
    ImageSize size_;
    std::size_t classes_ = 0;
    std::vector<Taps> columns_;
    std::array<std::vector<float>, 2> across_;       // lines of the sample in the new width: the even and the odd one
    std::array<std::int32_t, 2> across_of_{-1, -1};  // their lines in the sample
    std::vector<float> result_;
};

}  // namespace offramp
