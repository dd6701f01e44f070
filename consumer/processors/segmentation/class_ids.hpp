#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/numerics/foreground_score.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/segmentation/class_argmax.hpp"
#include "consumer/processors/segmentation/enlarged_sample.hpp"
#include "consumer/processors/segmentation/resized_scores.hpp"
#include "consumer/processors/segmentation/segmentation_output.hpp"

namespace offramp {

// Finds the class of each pixel of a sample: ids as they lie in the slab, or the argmax of scores, enlarged first where
// they are to be. Of one channel, the foreground's, class 1 from a threshold on. Owns its scratch memory. Thread: one.
// Errors: those of SegmentationOutput::scores().
class ClassIds {
  public:
    explicit ClassIds(const ForegroundScale& scale) : scale_(scale) {}

    // height() times width() ids of `output`, row by row; valid until the next call, and while the slab is.
    std::span<const std::uint8_t> of(const SegmentationOutput& output, const SampleView& sample,
                                     const Progress& progress);
    // The same in another size, at most kMaxImagePixels: the classes of scores that are brought to it (ResizedScores);
    // of class ids those of the nearest pixel.
    std::span<const std::uint8_t> of(const SegmentationOutput& output, const SampleView& sample, ImageSize size,
                                     const Progress& progress);

  private:
    std::span<const std::uint8_t> by_lines(const SegmentationOutput& output, const SampleView& sample,
                                           const Progress& progress);
    std::span<const std::uint8_t> resize_scores(const SegmentationOutput& output, const SampleView& sample,
                                                ImageSize size, const Progress& progress);
    std::span<const std::uint8_t> nearest(const SegmentationOutput& output, const SampleView& sample, ImageSize size,
                                          const Progress& progress);
    // `line`: scores, [classes, ids.size()].
    void find_classes(std::span<const float> line, bool one_channel, std::span<std::uint8_t> ids);
    std::span<const std::uint8_t> reduce(const ClassScores& scores, const Progress& progress);

    ForegroundScale scale_;
    ClassArgmax argmax_;
    EnlargedSample enlarged_;
    ResizedScores resized_;
    std::vector<std::uint8_t> ids_, plane_;
};

}  // namespace offramp
