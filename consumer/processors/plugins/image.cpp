#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.hpp"
#include "common/wire/output_description.hpp"
#include "consumer/processors/pictures/jpeg_encoder.hpp"
#include "consumer/processors/pictures/output_pixels.hpp"
#include "consumer/processors/pictures/png_encoder.hpp"
#include "consumer/processors/pictures/webp_encoder.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/files/output_name.hpp"

namespace offramp {
namespace {

// Every program reads them from here: common/settings/catalogue.md.
[[maybe_unused]] constexpr std::string_view kImageSettings = R"settings(
[[setting]]
flag = "image-format"
kind = "word"
words = "png, jpeg, webp"
preset = "png"
changes = "results"
help = "Processor `image`: files of this kind"

[[setting]]
flag = "image-quality"
kind = "whole"
least = 1
most = 100
preset = 90
changes = "results"
help = "Processor `image`: quality of JPEG and WebP"

[[setting]]
flag = "image-range"
kind = "word"
words = "0:1, -1:1, 0:255"
preset = "0:1"
changes = "results"
help = "Processor `image`: what black and white are in the model's output"

[results]
reads = "pictures"
endings = ".png, .jpg, .webp"
ending-from = "image-format"
)settings";

struct ImageSettings {
    std::string format;
    int quality;
    std::string range;

    explicit ImageSettings(const CatalogueValues& given)
        : format(given.text("image-format")),
          quality(static_cast<int>(given.number("image-quality"))),
          range(given.text("image-range")) {}
};

// Writes outputs that are pictures as files: OUTPUT/KEY.png (.jpg, .webp), or OUTPUT/KEY.NAME.png when several outputs
// fit.
class ImageFiles final : public Processor {
  public:
    ImageFiles(const ProcessorOptions& options, const ImageSettings& settings)
        : folder_(options.output_for("image")),
          durability_(options.durability()),
          format_(settings.format),
          pixels_(PixelRange::named(settings.range)),
          png_(options.settings),
          jpeg_(settings.quality),
          webp_(settings.quality) {}

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        const auto outputs = picture_outputs(slab, "image");
        for (const PictureOutput& output : outputs) require_format_for(output);
        for (const SampleView& sample : slab.samples) {
            if (sample.hole) continue;
            for (const PictureOutput& output : outputs) {
                const std::string path = sample_path(folder_, sample.key, output.suffix + extension());
                const auto file = encoded(pixels_.of(output, sample, progress), output, progress);
                progress();
                if (!still_current()) return;
                write_atomically(path, file, durability_);
            }
        }
    }

    std::vector<std::string> files_of(const SlabContents& slab, const SampleView& sample) const override {
        std::vector<std::string> files;
        for (const PictureOutput& output : picture_outputs_if_any(slab))
            files.push_back(sample.key + output.suffix + extension());
        return files;
    }

  private:
    std::string extension() const { return format_ == "jpeg" ? ".jpg" : "." + format_; }

    void require_format_for(const PictureOutput& output) const {
        if (format_ == "jpeg" && output.channels() == 4)
            throw ConfigError(
                "processor image: " + describe_output(output.tensor->spec) + " has alpha, which JPEG does not hold",
                "Give --image-format png or webp");
    }

    std::span<const std::byte> encoded(std::span<const std::uint8_t> pixels, const PictureOutput& output,
                                       const Progress& progress) {
        const ImageSize size = output.size();
        if (format_ == "jpeg") return jpeg_.encode(pixels, size);
        if (format_ == "webp") return webp_.encode(output.channels() == 1 ? in_three_channels(pixels) : pixels, size);
        const PngPixels kind = output.channels() == 1   ? PngPixels::Gray
                               : output.channels() == 3 ? PngPixels::Rgb
                                                        : PngPixels::Rgba;
        return png_.encode({.pixels = pixels, .width = size.width, .height = size.height, .kind = kind}, progress);
    }

    // WebP has no gray.
    std::span<const std::uint8_t> in_three_channels(std::span<const std::uint8_t> gray) {
        coloured_.clear();
        coloured_.reserve(gray.size() * 3);
        for (const std::uint8_t pixel : gray) coloured_.insert(coloured_.end(), 3, pixel);
        return coloured_;
    }

    std::string folder_;
    Durability durability_;
    std::string format_;
    OutputPixels pixels_;
    PngEncoder png_;
    JpegEncoder jpeg_;
    WebpEncoder webp_;
    std::vector<std::uint8_t> coloured_;
};

}  // namespace

std::unique_ptr<Processor> make_image(const ProcessorOptions& options) {
    return std::make_unique<ImageFiles>(options, ImageSettings(options.settings));
}

std::unique_ptr<RunOutput> run_output_of_image(const CatalogueValues& /*settings*/) { return nullptr; }

}  // namespace offramp
