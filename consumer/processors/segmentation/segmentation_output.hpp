#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/wire/output_forms.hpp"
#include "common/wire/slab_view.hpp"
#include "consumer/processors/segmentation/class_argmax.hpp"

namespace offramp {

// An output with the class of each pixel. Class ids: uint8, bool, int32 or int64, [N, H, W] or [N, 1, H, W], 0 to 255.
// Class scores: float32, float16 or bfloat16, [N, C, H, W], which may need enlarging first. Scores of one channel, [N,
// 1, H, W], rate how likely the foreground is. Borrows the slab.
struct SegmentationOutput {
    const TensorView* tensor = nullptr;
    const TensorView* confidence = nullptr;  // beside class ids: the probability of each pixel's class, 0 to 255
    std::uint32_t upsample_factor = 1;       // for scores
    std::string suffix;                      // for file names: ".NAME" if several outputs fit, else empty

    bool has_scores() const { return is_class_scores(tensor->spec); }
    bool one_channel() const { return has_scores() && tensor->spec.shape[1] == 1; }
    std::uint32_t width() const;  // after enlarging
    std::uint32_t height() const;
    ImageSize size() const { return {width(), height()}; }
    // The scores of one sample. Errors: ProtocolError when they are not aligned.
    ClassScores scores(std::size_t row) const;
};

// The outputs of a slab that fit. Errors: ConfigError if none fits, with the reason for each output. `processor`: the
// caller, for errors.
std::vector<SegmentationOutput> segmentation_outputs(const SlabContents& slab, std::string_view processor);

// Like segmentation_outputs(), but returns an empty vector if none fits.
std::vector<SegmentationOutput> segmentation_outputs_if_any(const SlabContents& slab);

// The files of a sample, KEY+EXTENSION, for a processor that writes one per output (Processor::files_of).
std::vector<std::string> segmentation_files(const SlabContents& slab, const SampleView& sample,
                                            std::string_view extension);

// One sample's plane of class ids or bytes, row by row: the slab's own bytes if they have this form and order, else a
// copy in `scratch`. Errors: ConfigError names an id outside 0 to 255.
std::span<const std::uint8_t> plane_of(const TensorView& tensor, const SampleView& sample,
                                       std::vector<std::uint8_t>& scratch);

}  // namespace offramp
