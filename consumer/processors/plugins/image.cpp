#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/images/resize.hpp"
#include "common/base/error.hpp"
#include "common/wire/tensor_spec.hpp"
#include "consumer/processors/pictures/lossy_encoders.hpp"
#include "consumer/processors/pictures/original_images.hpp"
#include "consumer/processors/pictures/output_pixels.hpp"
#include "consumer/processors/pictures/png_encoder.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/sinks/files/atomic_file.hpp"
#include "consumer/sinks/files/output_name.hpp"

namespace offramp {
namespace {

struct ImageSettings {
    std::string format;
    int quality;
    std::string range;
    bool encoded;

    explicit ImageSettings(const CatalogueValues& given)
        : format(given.text("image-format")),
          quality(static_cast<int>(given.number("image-quality"))),
          range(given.text("image-range")),
          encoded(given.text("encode") == "gpu") {}
};

// Premultiplied colours can be mixed.
void multiply_by_alpha(std::span<std::uint8_t> rgba) {
    for (std::size_t i = 0; i < rgba.size(); i += 4)
        for (std::size_t c = 0; c < 3; ++c)
            rgba[i + c] = static_cast<std::uint8_t>((unsigned{rgba[i + c]} * rgba[i + 3] + 127U) / 255U);
}

void divide_by_alpha(std::span<std::uint8_t> rgba) {
    for (std::size_t i = 0; i < rgba.size(); i += 4)
        for (std::size_t c = 0; c < 3 && rgba[i + 3] > 0; ++c)
            rgba[i + c] = static_cast<std::uint8_t>(std::min(255U, unsigned{rgba[i + c]} * 255U / rgba[i + 3]));
}

// Writes outputs of pictures as files: OUTPUT/KEY.png (.jpg, .webp), or OUTPUT/KEY.NAME.png when several outputs fit.
// JPEG files that the producer encoded keep their bytes, whatever --image-format is.
//
// The network saw a picture squeezed into its input. So its output is resized to the picture's proportions, unless
// --picture-size differs or samples are not whole pictures of the input.
class ImageFiles final : public Processor {
  public:
    ImageFiles(const ProcessorOptions& options, const ImageSettings& settings)
        : folder_(options.output_for("image")),
          durability_(options.durability()),
          format_(settings.format),
          encoded_(settings.encoded),
          pixels_(PixelRange::named(settings.range)),
          png_(options.settings),
          jpeg_(settings.quality),
          webp_(settings.quality),
          side_(options.input.image_size) {
        if (options.settings.text("picture-size") != "model" && options.input.tile == 0 && has_originals(options.input))
            originals_.emplace(options.input, "image", options.run_dir);
    }

    void process(const SlabContents& slab, const Progress& progress, const StillCurrent& still_current) override {
        const auto outputs = picture_outputs(slab, "image");
        for (const PictureOutput& output : outputs) require_format_for(output);
        for (const SampleView& sample : slab.samples) {
            if (sample.empty) continue;
            for (const PictureOutput& output : outputs) {
                const std::string path = sample_path(folder_, sample.key, output.suffix + extension_of(output));
                progress();
                const auto file = output.encoded() ? encoded_jpeg(output, sample) : encode(output, sample, progress);
                progress();
                if (!still_current()) return;
                write_atomically(path, file, durability_);
            }
        }
    }

    std::vector<std::string> files_of(const SlabContents& slab, const SampleView& sample) const override {
        std::vector<std::string> files;
        for (const PictureOutput& output : picture_outputs_if_any(slab))
            files.push_back(sample.key + output.suffix + extension_of(output));
        return files;
    }

  private:
    std::string extension_of(const PictureOutput& output) const {
        return output.encoded() || format_ == "jpeg" ? ".jpg" : "." + format_;
    }

    void require_format_for(const PictureOutput& output) const {
        if (output.encoded()) return;
        if (encoded_)
            throw ConfigError("--encode gpu: the " + describe_output(output.tensor->spec) + " is not encoded",
                              "Leave --encode out; in a loop of your own, call offramp.reduce.jpeg() before submit()");
        if (format_ == "jpeg" && output.channels() == 4)
            throw ConfigError("processor image: " + describe_output(output.tensor->spec) +
                                  " has an alpha channel, which JPEG cannot store",
                              "Give --image-format png or webp");
    }

    ImageSize size_of(const PictureOutput& output, const SampleView& sample) {
        if (!originals_) return output.size();
        const std::uint32_t longest = format_ == "webp" ? 16'383 : format_ == "jpeg" ? 65'500 : 1'000'000;
        return size_in_proportion(originals_->size_of(sample.key).seen.size, output.size(), side_, longest);
    }

    std::span<const std::uint8_t> in_size(std::span<const std::uint8_t> pixels, const PictureOutput& output,
                                          ImageSize size) {
        if (size == output.size()) return pixels;
        const std::uint32_t channels = output.channels();
        resized_.resize(size.pixels() * channels);
        if (channels == 4) {
            multiplied_.assign(pixels.begin(), pixels.end());
            multiply_by_alpha(multiplied_);
            pixels = multiplied_;
        }
        resizer_.resize_channels_of(channels, pixels.data(), output.size(), resized_.data(), size,
                                    Interpolation::Bicubic);
        if (channels == 4) divide_by_alpha(resized_);
        return resized_;
    }

    std::span<const std::byte> encode(const PictureOutput& output, const SampleView& sample, const Progress& progress) {
        const ImageSize size = size_of(output, sample);
        const auto pixels = in_size(pixels_.of(output, sample, progress), output, size);
        if (format_ == "jpeg") return jpeg_.encode(pixels, size);
        if (format_ == "webp") return webp_.encode(output.channels() == 1 ? in_three_channels(pixels) : pixels, size);
        const PngPixels kind = output.channels() == 1   ? PngPixels::Gray
                               : output.channels() == 3 ? PngPixels::Rgb
                                                        : PngPixels::Rgba;
        return png_.encode({.pixels = pixels, .width = size.width, .height = size.height, .kind = kind}, progress);
    }

    // WebP has no gray mode.
    std::span<const std::uint8_t> in_three_channels(std::span<const std::uint8_t> gray) {
        coloured_.clear();
        coloured_.reserve(gray.size() * 3);
        for (const std::uint8_t pixel : gray) coloured_.insert(coloured_.end(), 3, pixel);
        return coloured_;
    }

    std::string folder_;
    Durability durability_;
    std::string format_;
    bool encoded_;
    OutputPixels pixels_;
    PngEncoder png_;
    JpegEncoder jpeg_;
    WebpEncoder webp_;
    std::uint32_t side_;                       // of the square that the network saw; 0: unknown
    std::optional<OriginalImages> originals_;  // give the files their proportions
    Resizer resizer_;
    std::vector<std::uint8_t> coloured_, multiplied_, resized_;
};

}  // namespace

std::unique_ptr<Processor> make_image(const ProcessorOptions& options) {
    return std::make_unique<ImageFiles>(options, ImageSettings(options.settings));
}

std::unique_ptr<RunOutput> run_output_of_image(const CatalogueValues& /*settings*/) { return nullptr; }

}  // namespace offramp
