#include <algorithm>
#include <span>
#include <string_view>
#include <vector>

#include "consumer/processors/pictures/lossy_encoders.hpp"
#include "consumer/processors/pictures/original_images.hpp"
#include "consumer/processors/pictures/png_encoder.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/segmentation/class_ids.hpp"
#include "consumer/processors/segmentation/segmentation_output.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/files/output_name.hpp"

namespace offramp {
namespace {

constexpr int kJpegQuality = 88;
constexpr std::uint32_t kLongestSide = 65'500;  // JPEG's limit

// Colours every original image with its classes, for inspection: OUTPUT/KEY.jpg in the original's size, or
// OUTPUT/KEY.NAME.jpg when several outputs fit. If a side exceeds JPEG's limit, it takes every second pixel, or fewer.
// It leaves class 0 unchanged, and the parts that the model did not see (--resize-size). Other classes are half covered
// by their VOC colour.
class Overlay final : public Processor {
  public:
    explicit Overlay(const ProcessorOptions& options)
        : folder_(options.output_for("overlay")),
          durability_(options.durability()),
          originals_(options.input, "overlay", options.run_dir),
          ids_(options.foreground_scale()),
          jpeg_(kJpegQuality) {}

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        const auto outputs = segmentation_outputs(slab, "overlay");
        for (const SampleView& sample : slab.samples) {
            if (sample.empty) continue;
            for (const SegmentationOutput& output : outputs) {
                const std::string path = sample_path(folder_, sample.key, output.suffix + ".jpg");
                const OriginalImages::Image original = originals_.of(sample.key);
                originals_.require_another_file(path);
                progress();
                colour(original, ids_.of(output, sample, original.seen.size, progress));
                progress();
                const ImageSize size = thinned_out(original.size);
                const auto file = jpeg_.encode(std::span(rgb_).first(size.rgb_bytes()), size, original.beside->profile);
                progress();
                if (!still_current()) return;
                write_atomically(path, file, durability_);
            }
        }
    }

    std::vector<std::string> files_of(const SlabContents& slab, const SampleView& sample) const override {
        return segmentation_files(slab, sample, ".jpg");
    }

  private:
    // `ids`: the pixels that the model saw.
    void colour(const OriginalImages::Image& original, std::span<const std::uint8_t> ids) {
        const auto [width, height] = original.seen.size;
        rgb_ = *original.rgb;
        for (std::uint32_t y = 0; y < height; ++y) {
            std::size_t at = (std::uint64_t{original.seen.top + y} * original.size.width + original.seen.left) * 3;
            for (std::uint32_t x = 0; x < width; ++x, at += 3) {
                const std::uint8_t id = ids[std::size_t{y} * width + x];
                if (id == 0) continue;
                for (std::size_t channel = 0; channel < 3; ++channel) {
                    const unsigned pixel = rgb_[at + channel];
                    rgb_[at + channel] = static_cast<std::uint8_t>((pixel + palette_[id][channel]) / 2);
                }
            }
        }
    }

    // Thins out rgb_ until its width and height fit into a JPEG.
    ImageSize thinned_out(ImageSize size) {
        const std::uint32_t step = (std::max(size.width, size.height) + kLongestSide - 1) / kLongestSide;
        if (step <= 1) return size;
        std::size_t to = 0;
        for (std::uint32_t y = 0; y < size.height; y += step)
            for (std::uint32_t x = 0; x < size.width; x += step, to += 3)
                std::copy_n(rgb_.begin() + static_cast<std::ptrdiff_t>((std::size_t{y} * size.width + x) * 3), 3,
                            rgb_.begin() + static_cast<std::ptrdiff_t>(to));
        return {(size.width + step - 1) / step, (size.height + step - 1) / step};
    }

    std::string folder_;
    Durability durability_;
    OriginalImages originals_;
    PngPalette palette_ = voc_palette();
    ClassIds ids_;
    JpegEncoder jpeg_;
    std::vector<std::uint8_t> rgb_;
};

}  // namespace

std::unique_ptr<Processor> make_overlay(const ProcessorOptions& options) { return std::make_unique<Overlay>(options); }

std::unique_ptr<RunOutput> run_output_of_overlay(const CatalogueValues& /*settings*/) { return nullptr; }

}  // namespace offramp
