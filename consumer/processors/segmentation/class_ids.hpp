#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/numerics/foreground_score.hpp"
#include "common/wire/output_forms.hpp"
#include "consumer/processors/pictures/original_images.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/segmentation/class_argmax.hpp"
#include "consumer/processors/segmentation/enlarged_sample.hpp"
#include "consumer/processors/segmentation/segmentation_output.hpp"

namespace offramp {

// Finds the class of each pixel of a sample: the slab's class ids, or the argmax of its scores, enlarged first if
// requested. A one-channel output gives class 1 (foreground) from a threshold on. Owns its scratch memory. Thread: one.
// Errors: those of SegmentationOutput::scores().
class ClassIds {
  public:
    explicit ClassIds(const ForegroundScale& scale) : scale_(scale) {}

    // height() times width() ids of `output`, row by row. Valid until the next call, and only while the slab is.
    std::span<const std::uint8_t> of(const SegmentationOutput& output, const SampleView& sample,
                                     const Progress& progress);
    // The same in another size, at most kMaxImagePixels. Scores are resized first (ResizedScores); class ids come from
    // the nearest pixel.
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

// The pixels of one class, in COCO's form.
struct ClassMask {
    std::uint8_t id = 0;
    std::string counts;                                      // COCO's compressed run-length encoding, column by column
    std::uint64_t area = 0;                                  // in pixels
    std::uint32_t left = 0, top = 0, width = 0, height = 0;  // the smallest box around the pixels
};

// Encodes the classes of a plane of ids as run lengths, one mask per class, byte for byte as pycocotools does. Owns its
// scratch memory. Thread: one.
class ClassRuns {
  public:
    // The masks of the classes that occur, in order of ids. Valid until the next call. `ids`: height times width, row
    // by row.
    std::span<const ClassMask> encode(std::span<const std::uint8_t> ids, std::uint32_t width, std::uint32_t height);

  private:
    // The state of one class while the plane is read, column by column.
    struct Reading {
        std::vector<std::uint32_t> lengths;  // alternating: pixels outside the class, pixels of the class
        std::uint64_t end = 0;               // end of its last run
        std::uint32_t top = 0, bottom = 0, left = 0, right = 0;
        std::uint64_t area = 0;
    };
    void add_run(std::uint8_t id, std::uint64_t begin, std::uint64_t end, std::uint32_t height);

    std::array<Reading, kMostClassesOfMasks> readings_;
    std::vector<std::uint8_t> columns_;
    std::vector<ClassMask> masks_;
};

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
