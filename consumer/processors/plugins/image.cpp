#include <span>
#include <string>
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

// Writes outputs that are pictures as files: OUTPUT/KEY.png (.jpg, .webp), or OUTPUT/KEY.NAME.png when several outputs
// fit.
class ImageFiles final : public Processor {
  public:
    explicit ImageFiles(const ProcessorOptions& options)
        : folder_(options.output_for("image")),
          durability_(options.durability()),
          format_(options.config->image_format),
          pixels_(PixelRange::named(options.config->image_range)),
          png_(options.png_level()),
          jpeg_(static_cast<int>(options.config->image_quality)),
          webp_(static_cast<int>(options.config->image_quality)) {}

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

std::unique_ptr<Processor> make_image(const ProcessorOptions& options) { return std::make_unique<ImageFiles>(options); }

std::unique_ptr<RunOutput> run_output_of_image() { return nullptr; }

}  // namespace offramp
