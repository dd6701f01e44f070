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

// Finds the classes of a sample's pixels, in the size of its original picture, so that the mask fits over it; 0 outside
// the part that the model saw (--resize-size). The mask has the size of the model's output with --mask-size model, or
// if samples are not made from pictures of the input. Owns the list of the input and scratch memory. Thread: one.
// Blocks: on the disk. Errors: those of OriginalImages and ClassIds.
class SampleMasks {
  public:
    // `processor`: the caller, for messages.
    SampleMasks(const ProcessorOptions& options, std::string_view processor);

    struct Mask {
        std::span<const std::uint8_t> ids;  // row by row; valid until the next call, and only while the slab is
        ImageSize size;
    };
    Mask of(const SegmentationOutput& output, const SampleView& sample, const Progress& progress);
    // Calls OriginalImages::require_another_file for the last mask's picture, if there is one.
    void require_another_file(const std::string& result) const {
        if (originals_) originals_->require_another_file(result);
    }

  private:
    std::optional<OriginalImages> originals_;
    ClassIds ids_;
    std::vector<std::uint8_t> surrounded_;
};

}  // namespace offramp
