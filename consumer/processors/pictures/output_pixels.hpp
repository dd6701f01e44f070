#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/numerics/pixel_range.hpp"
#include "common/wire/output_forms.hpp"
#include "common/wire/slab_view.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/raw/sample_array.hpp"

namespace offramp {

// An output of pictures, [N, 1, 3 or 4, H, W], as uint8, float32, float16 or bfloat16. Channels: gray; red, green,
// blue; or red, green, blue, alpha. Or, encoded, of JPEG files. Borrows the slab.
struct PictureOutput {
    const TensorView* tensor = nullptr;
    std::string suffix;  // for file names: ".NAME" if several outputs fit, else empty

    bool encoded() const { return is_encoded_pictures(tensor->spec); }
    // Not of encoded ones.
    std::uint32_t channels() const { return static_cast<std::uint32_t>(tensor->spec.shape[1]); }
    ImageSize size() const {
        return {static_cast<std::uint32_t>(tensor->spec.shape[3]), static_cast<std::uint32_t>(tensor->spec.shape[2])};
    }
};

// The outputs of a slab that fit. Errors: ConfigError if none fits, with the reason for each output. `processor`: the
// caller, for errors.
std::vector<PictureOutput> picture_outputs(const SlabContents& slab, std::string_view processor);
// Like picture_outputs(), but returns an empty vector if none fits.
std::vector<PictureOutput> picture_outputs_if_any(const SlabContents& slab);

// The JPEG file that the producer encoded for one sample. Borrows the slab. Errors: ConfigError names output and item
// if the bytes lack the beginning or the end of such a file.
std::span<const std::byte> encoded_jpeg(const PictureOutput& output, const SampleView& sample);

// Converts picture outputs to 8-bit pixels (PixelRange). Owns its scratch memory. Thread: one. Errors: ConfigError
// names a number that has no pixel, output and item.
class OutputPixels {
  public:
    explicit OutputPixels(PixelRange range) : range_(range) {}

    // Pixels row by row, with a pixel's channels side by side. Valid until the next call, and only while the slab is.
    std::span<const std::uint8_t> of(const PictureOutput& output, const SampleView& sample, const Progress& progress);

  private:
    std::uint8_t pixel_of(float number, const PictureOutput& output, const SampleView& sample) const;
    [[noreturn]] void refuse(float number, const PictureOutput& output, const SampleView& sample) const;

    PixelRange range_;
    SampleArray planes_;
    std::vector<std::uint8_t> pixels_;
};

// The size of a result for a `picture` that was squeezed into a square with this `side` (0: unknown). The network
// turned the square into `made`. The result scales `picture` by the same factor, so that it keeps the picture's
// proportions. If this exceeds `longest` pixels a side or kMaxImagePixels in all, it shrinks in proportion. Pure.
ImageSize size_in_proportion(ImageSize picture, ImageSize made, std::uint32_t side, std::uint32_t longest);

}  // namespace offramp
