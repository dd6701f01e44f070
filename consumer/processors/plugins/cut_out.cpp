#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "common/app/images/resize.hpp"
#include "common/base/error.hpp"
#include "consumer/processors/pictures/original_images.hpp"
#include "consumer/processors/pictures/png_encoder.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/segmentation/foreground.hpp"
#include "consumer/processors/segmentation/segmentation_output.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/files/output_name.hpp"

namespace offramp {
namespace {

// Multiplies fractions of 255, rounded.
std::uint8_t times(std::uint8_t one, std::uint8_t other) {
    return static_cast<std::uint8_t>((unsigned{one} * other + 127U) / 255U);
}

// `to`: red, green, blue and alpha of each pixel; the colours are 0 where alpha is. Moves a pixel as one word, and
// without a branch, because it runs for every pixel of a photograph.
void put_pixels(std::span<const std::uint8_t> rgb, std::span<const std::uint8_t> alpha, std::uint8_t* to) {
    static_assert(std::endian::native == std::endian::little);
    const std::uint8_t* from = rgb.data();
    for (std::size_t at = 0; at < alpha.size(); ++at, from += 3, to += 4) {
        std::uint32_t pixel = 0;
        if (at + 1 < alpha.size())
            std::memcpy(&pixel, from, 4);  // and a byte of the next pixel
        else
            std::memcpy(&pixel, from, 3);
        const std::uint32_t colours = alpha[at] != 0 ? 0x00ff'ffff : 0;
        pixel = (pixel & colours) | std::uint32_t{alpha[at]} << 24U;
        std::memcpy(to, &pixel, 4);
    }
}

// Removes the background of every original image: OUTPUT/KEY.png, RGBA, in the original's size, or OUTPUT/KEY.NAME.png
// when several outputs fit. Alpha is the probability of not being background, resized to the original, times the
// original's own alpha. Where alpha is 0, the colours are 0, too. Parts that the model did not see (--resize-size) are
// transparent. The original's ICC profile is kept.
class CutOut final : public Processor {
  public:
    explicit CutOut(const ProcessorOptions& options)
        : folder_(options.output_for("cut-out")),
          durability_(options.durability()),
          originals_(options.input, "cut-out", options.run_dir),
          png_(options.settings),
          foreground_(options.foreground_scale()) {}

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        const auto outputs = segmentation_outputs(slab, "cut-out");
        for (const SampleView& sample : slab.samples) {
            if (sample.empty) continue;
            for (const SegmentationOutput& output : outputs) {
                const std::string path = sample_path(folder_, sample.key, output.suffix + ".png");
                const OriginalImages::Image original = originals_.of(sample.key);
                originals_.require_another_file(path);
                progress();
                const auto file = cut(original, output, sample, progress);
                if (!still_current()) return;
                write_atomically(path, file, durability_);
            }
        }
    }

    std::vector<std::string> files_of(const SlabContents& slab, const SampleView& sample) const override {
        return segmentation_files(slab, sample, ".png");
    }

  private:
    std::span<const std::byte> cut(const OriginalImages::Image& original, const SegmentationOutput& output,
                                   const SampleView& sample, const Progress& progress) {
        const auto small = foreground_.of(output, sample, progress);
        const PictureRect& seen = original.seen;
        alpha_.resize(seen.size.pixels());
        resizer_.resize_plane(small.data(), {output.width(), output.height()}, alpha_.data(), seen.size);
        if (seen.size != original.size) {
            surround(alpha_, seen, original.size, surrounded_);
            std::swap(alpha_, surrounded_);
        }
        if (!original.beside->alpha.empty())
            std::ranges::transform(alpha_, original.beside->alpha, alpha_.begin(), times);
        rgba_.resize(alpha_.size() * 4);
        put_pixels(*original.rgb, alpha_, rgba_.data());
        progress();
        return png_.encode({.pixels = rgba_,
                            .width = original.size.width,
                            .height = original.size.height,
                            .kind = PngPixels::Rgba,
                            .profile = original.beside->profile},
                           progress);
    }

    std::string folder_;
    Durability durability_;
    OriginalImages originals_;
    PngEncoder png_;
    Foreground foreground_;
    Resizer resizer_;
    std::vector<std::uint8_t> alpha_, surrounded_, rgba_;
};

}  // namespace

std::unique_ptr<Processor> make_cut_out(const ProcessorOptions& options) { return std::make_unique<CutOut>(options); }

std::unique_ptr<RunOutput> run_output_of_cut_out(const CatalogueValues& /*settings*/) { return nullptr; }

}  // namespace offramp
