#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "common/base/error.hpp"
#include "common/json/json_text.hpp"
#include "common/wire/tensor_spec.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/segmentation/class_ids.hpp"
#include "consumer/processors/segmentation/segmentation_output.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/segments/segment_file.hpp"

namespace offramp {
namespace {

// COCO counts pixels in 32 bits.
void require_countable(const SegmentationOutput& output) {
    const std::uint64_t pixels = std::uint64_t{output.width()} * output.height();
    if (pixels <= std::numeric_limits<std::uint32_t>::max()) return;
    throw ConfigError("processor mask-rle: " + describe_output(output.tensor->spec) + " makes masks of " +
                          std::to_string(pixels) + " pixels, but COCO's run lengths end at 4294967295",
                      "Use --processor mask-png");
}

// Writes each sample's classes as COCO run-length encodings, one line of JSON per sample and output, into
// OUTPUT/masks.jsonl at the run's end. Class 0, the background, is the area that no mask covers.
class MaskRle final : public Processor {
  public:
    explicit MaskRle(const ProcessorOptions& options)
        : lines_(options.shared_output_for("mask-rle"), "mask-rle", options.durability()),
          masks_(options, "mask-rle") {}

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        const auto outputs = segmentation_outputs(slab, "mask-rle");
        for (const SegmentationOutput& output : outputs) require_countable(output);
        if (!slab.batches.empty()) lines_.begin(slab.batches.front().batch, slab.batches.front().first_row);
        for (const SampleView& sample : slab.samples) {
            if (sample.empty) continue;
            for (const SegmentationOutput& output : outputs) {
                const SampleMasks::Mask mask = masks_.of(output, sample, progress);
                lines_.add_json(sample.item, members_of(sample, output, mask.size,
                                                        runs_.encode(mask.ids, mask.size.width, mask.size.height)));
                progress();
            }
        }
        if (still_current()) lines_.commit();
    }

  private:
    static std::string members_of(const SampleView& sample, const SegmentationOutput& output, ImageSize mask_size,
                                  std::span<const ClassMask> masks) {
        nlohmann::ordered_json line{{"key", sample.key}};
        if (!output.suffix.empty()) line["output"] = output.tensor->spec.name;
        const nlohmann::ordered_json size{mask_size.height, mask_size.width};
        line["size"] = size;
        line["annotations"] = nlohmann::ordered_json::array();
        for (const ClassMask& mask : masks) {
            if (mask.id == 0) continue;
            line["annotations"].push_back({{"category_id", mask.id},
                                           {"area", mask.area},
                                           {"bbox", {mask.left, mask.top, mask.width, mask.height}},
                                           {"segmentation", {{"size", size}, {"counts", mask.counts}}}});
        }
        const std::string text = json_text(line);
        return text.substr(1, text.size() - 2);
    }

    SegmentFile lines_;
    SampleMasks masks_;
    ClassRuns runs_;
};

// {"item":N,"key":...
bool begins_as_run_lengths(std::string_view line) {
    if (!line.starts_with(kJsonLine)) return false;
    line.remove_prefix(kJsonLine.size());
    const std::size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
    return digits > 0 && line.substr(digits).starts_with(",\"key\":");
}

}  // namespace

std::unique_ptr<Processor> make_mask_rle(const ProcessorOptions& options) { return std::make_unique<MaskRle>(options); }

std::unique_ptr<RunOutput> run_output_of_mask_rle(const CatalogueValues& /*settings*/) {
    return merged_lines("mask-rle", "masks.jsonl", &begins_as_run_lengths);
}

}  // namespace offramp
