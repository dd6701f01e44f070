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

// Enlarges one sample of a low-res output on demand, as the model's left-out last step would have done it on a GPU:
// PyTorch's upsample_bilinear2d(align_corners=False), in float32, to the bit (common/numerics/enlargement.hpp). 16-bit
// scores are widened first. Owns two enlarged lines and one result line of every class. Borrows the sample's bytes from
// begin() on. Thread: one.
class EnlargedSample {
  public:
    EnlargedSample();
    // For tests: the loops of one instruction set.
    explicit EnlargedSample(const EnlargeKernels& kernels) : kernels_(&kernels) {}

    // float32, float16 or bfloat16 scores of any strides; enlarged, a side has at most kLongestSide pixels.
    static constexpr std::int64_t kLongestSide = std::int64_t{1} << 20;
    void begin(const ClassScores& sample, std::uint32_t upsample_factor);

    std::int64_t height() const { return sample_.height * upsample_factor_; }
    std::int64_t width() const { return sample_.width * upsample_factor_; }

    // Line y of every class: float32 [classes, width()], valid until the next call. Each source line is read and
    // enlarged once when y ascends.
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
    std::vector<float> source_;                      // a line of one class
    std::array<std::vector<float>, 2> across_;       // lines enlarged across, [classes, width()]; even ones, odd ones
    std::array<std::int32_t, 2> across_of_{-1, -1};  // of which source lines
    std::vector<float> result_;
};

// Brings the scores of one sample, enlarged where they are to be, to the size of a picture, as
// torch.nn.functional.interpolate(size=..., mode="bilinear") does, which is how masks in a picture's own size are made.
// Line by line, of some columns at a time. Owns three lines of these columns of every class, and those of an
// EnlargedSample. Borrows the sample's bytes from begin() on. Thread: one.
class ResizedScores {
  public:
    void begin(const ClassScores& sample, std::uint32_t upsample_factor, ImageSize size);
    // The columns that line() is of from now on, `count` of them.
    void take_columns(std::uint32_t first, std::uint32_t count);
    // Line y of every class: float32 [classes, count], valid until the next call. Each line of the sample is read once
    // when y ascends.
    std::span<const float> line(std::uint32_t y);

  private:
    const float* brought_across(std::int32_t source_line);

    const EnlargeKernels* kernels_ = &best_enlarge_kernels();
    EnlargedSample sample_;
    ImageSize size_;
    std::size_t classes_ = 0;
    std::vector<Taps> columns_;
    std::array<std::vector<float>, 2> across_;       // lines of the sample in the new width; even ones, odd ones
    std::array<std::int32_t, 2> across_of_{-1, -1};  // of which of its lines
    std::vector<float> result_;
};

}  // namespace offramp
