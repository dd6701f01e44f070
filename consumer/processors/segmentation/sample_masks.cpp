#include "consumer/processors/segmentation/sample_masks.hpp"

#include <algorithm>
#include <string_view>

#include "common/app/images/picture_list.hpp"
#include "common/app/settings/catalogue_values.hpp"

namespace offramp {
SampleMasks::SampleMasks(const ProcessorOptions& options, std::string_view processor)
    : ids_(options.foreground_scale()) {
    if (options.settings.text("mask-size") != "model" && has_originals(options.input))
        originals_.emplace(options.input, processor, options.run_dir);
}

SampleMasks::Mask SampleMasks::of(const SegmentationOutput& output, const SampleView& sample,
                                  const Progress& progress) {
    if (!originals_) return {.ids = ids_.of(output, sample, progress), .size = output.size()};
    const OriginalImages::Image picture = originals_->size_of(sample.key);
    progress();
    const auto ids = ids_.of(output, sample, picture.seen.size, progress);
    if (picture.seen.size == picture.size) return {.ids = ids, .size = picture.size};
    surround(ids, picture.seen, picture.size, surrounded_);
    return {.ids = surrounded_, .size = picture.size};
}

}  // namespace offramp
