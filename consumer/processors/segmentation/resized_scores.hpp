#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "consumer/processors/segmentation/class_argmax.hpp"
#include "consumer/processors/segmentation/enlarge_kernels.hpp"
#include "consumer/processors/segmentation/enlarged_sample.hpp"

namespace offramp {

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
