#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "consumer/processors/pictures/original_images.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/segmentation/class_ids.hpp"
#include "consumer/processors/segmentation/segmentation_output.hpp"

namespace offramp {

// The classes of a sample's pixels, in the size of the picture that it was made from, so that they lie on it; 0 where
// the model did not look
// (--resize-size). In the size of the model's output with --mask-size model, and where samples are not made from
// pictures of the input. Owns the list of the input and scratch memory. Thread: one. Blocks: on the disk. Errors: those
// of OriginalImages and ClassIds.
class SampleMasks {
  public:
    // `processor`: who asks, for messages.
    SampleMasks(const ProcessorOptions& options, std::string_view processor);

    struct Mask {
        std::span<const std::uint8_t> ids;  // row by row; valid until the next call, and while the slab is
        ImageSize size;
    };
    Mask of(const SegmentationOutput& output, const SampleView& sample, const Progress& progress);
    // OriginalImages::require_another_file of the last mask's picture, where it was looked at.
    void require_another_file(const std::string& result) const {
        if (originals_) originals_->require_another_file(result);
    }

  private:
    std::optional<OriginalImages> originals_;
    ClassIds ids_;
    std::vector<std::uint8_t> surrounded_;
};

}  // namespace offramp
