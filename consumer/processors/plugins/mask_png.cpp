#include <optional>
#include <string>
#include <string_view>

#include "common/base/error.hpp"
#include "consumer/processors/pictures/png_encoder.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/results/run_output.hpp"
#include "consumer/processors/segmentation/class_ids.hpp"
#include "consumer/processors/segmentation/segmentation_output.hpp"
#include "consumer/processors/segmentation/stitched_masks.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/files/output_name.hpp"

namespace offramp {
namespace {

// Makes a palette PNG from the class ids of every sample: OUTPUT/KEY.png, or OUTPUT/KEY.NAME.png when several outputs
// fit. With --tile, makes one per picture.
class MaskPng final : public Processor {
  public:
    explicit MaskPng(const ProcessorOptions& options)
        : folder_(options.output_for("mask-png")), durability_(options.durability()), png_(options.settings) {
        if (options.input.tile > 0)
            stitched_.emplace(options, "mask-png");
        else
            masks_.emplace(options, "mask-png");
    }

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        const auto outputs = segmentation_outputs(slab, "mask-png");
        for (const SampleView& sample : slab.samples) {
            if (sample.empty) continue;
            for (const SegmentationOutput& output : outputs) {
                if (stitched_) {
                    if (!stitched_->add(output, sample, progress, still_current)) return;
                    continue;
                }
                const std::string path = sample_path(folder_, sample.key, output.suffix + ".png");
                const SampleMasks::Mask mask = masks_->of(output, sample, progress);
                masks_->require_another_file(path);
                const auto file = png_.encode(mask.ids, mask.size.width, mask.size.height, progress);
                if (!still_current()) return;
                write_atomically(path, file, durability_);
            }
        }
    }

    std::vector<std::string> files_of(const SlabContents& slab, const SampleView& sample) const override {
        if (stitched_) return {};  // tiles share files
        return segmentation_files(slab, sample, ".png");
    }

  private:
    std::string folder_;
    Durability durability_;
    PalettePng png_;
    std::optional<SampleMasks> masks_;       // for separate samples
    std::optional<StitchedMasks> stitched_;  // with --tile: for samples that are tiles
};

}  // namespace

std::unique_ptr<Processor> make_mask_png(const ProcessorOptions& options) { return std::make_unique<MaskPng>(options); }

std::unique_ptr<RunOutput> run_output_of_mask_png(const CatalogueValues& /*settings*/) { return tile_canvases(); }

}  // namespace offramp
