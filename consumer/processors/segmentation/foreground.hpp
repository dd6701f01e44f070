#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "consumer/processors/processor.hpp"
#include "consumer/processors/segmentation/enlarged_sample.hpp"
#include "consumer/processors/segmentation/segmentation_output.hpp"

namespace offramp {

// Computes how far each pixel of a sample is from background (class 0), 0 to 255.
//
//   scores                       1 - softmax's probability of class 0: soft edges
//   scores of one channel        the probability of foreground: soft edges
//   class ids with confidence    the class's probability, or 1 minus it if the class is background
//   class ids alone              0 or 255: hard edges
//
// A pixel whose scores are NaN is background. Owns its scratch memory. Thread: one. Errors: those of
// SegmentationOutput::scores().
class Foreground {
  public:
    explicit Foreground(const ForegroundScale& scale) : scale_(scale) {}

    // height() times width() bytes of `output`, row by row; valid until the next call.
    std::span<const std::uint8_t> of(const SegmentationOutput& output, const SampleView& sample,
                                     const Progress& progress);

  private:
    void weigh_scores(const SegmentationOutput& output, const SampleView& sample, const Progress& progress);
    void weigh_ids(const SegmentationOutput& output, const SampleView& sample);

    ForegroundScale scale_;
    EnlargedSample enlarged_;
    std::vector<std::uint8_t> ids_, confidence_;
    std::vector<std::uint8_t> alpha_;
};

}  // namespace offramp
