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

// An output with the class of each pixel: class ids, uint8, bool, int32 or int64 [N, H, W] or [N, 1, H, W], of 0 to
// 255, or class scores, float32, float16 or bfloat16 [N, C, H, W], which may have to be enlarged first; of one channel,
// [N, 1, H, W], how sure the network is that it is foreground. Borrows the slab.
struct SegmentationOutput {
    const TensorView* tensor = nullptr;
    const TensorView* confidence = nullptr;  // the plane beside class ids: how probable each pixel's class is, 0 to 255
    std::uint32_t upsample_factor = 1;       // of scores
    std::string suffix;                      // of files: ".NAME" where several outputs fit, else empty

    bool has_scores() const { return is_class_scores(tensor->spec); }
    bool one_channel() const { return has_scores() && tensor->spec.shape[1] == 1; }
    std::uint32_t width() const;  // enlarged
    std::uint32_t height() const;
    ImageSize size() const { return {width(), height()}; }
    // The scores of one sample. Errors: ProtocolError when they are not aligned.
    ClassScores scores(std::size_t row) const;
};

// The outputs of a slab that fit. Errors: ConfigError if there is none, with the reason for each, and `processor`, the
// caller.
std::vector<SegmentationOutput> segmentation_outputs(const SlabContents& slab, std::string_view processor);

// The same, none when there is none.
std::vector<SegmentationOutput> segmentation_outputs_if_any(const SlabContents& slab);

// The files of a sample, KEY+EXTENSION, of a processor that makes one of each of these outputs (Processor::files_of).
std::vector<std::string> segmentation_files(const SlabContents& slab, const SampleView& sample,
                                            std::string_view extension);

// A plane of class ids or of bytes, of one sample, row by row: the slab's own bytes where they are such and lie so,
// else assembled in `scratch`. Errors: ConfigError names an id that is not 0 to 255.
std::span<const std::uint8_t> plane_of(const TensorView& tensor, const SampleView& sample,
                                       std::vector<std::uint8_t>& scratch);

}  // namespace offramp
