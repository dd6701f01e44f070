#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/wire/slab_view.hpp"
#include "consumer/processors/processor.hpp"
#include "consumer/processors/raw/sample_array.hpp"

namespace offramp {

// The values of black and white in a model's output, --image-range.
struct PixelRange {
    float black = 0;
    float white = 1;
    // Errors: ConfigError.
    static PixelRange named(std::string_view text);
};

// An output that is pictures: [N, 1, 3 or 4, H, W] of uint8, float32, float16 or bfloat16: gray, red, green and blue,
// and these with alpha. Borrows the slab.
struct PictureOutput {
    const TensorView* tensor = nullptr;
    std::string suffix;  // of files: ".NAME" where several outputs fit, else empty

    std::uint32_t channels() const { return static_cast<std::uint32_t>(tensor->spec.shape[1]); }
    ImageSize size() const {
        return {static_cast<std::uint32_t>(tensor->spec.shape[3]), static_cast<std::uint32_t>(tensor->spec.shape[2])};
    }
};

// The outputs of a slab that fit. Errors: ConfigError if there is none, with the reason for each, and `processor`, the
// caller.
std::vector<PictureOutput> picture_outputs(const SlabContents& slab, std::string_view processor);
// The same, none when there is none.
std::vector<PictureOutput> picture_outputs_if_any(const SlabContents& slab);

// Makes 8-bit pixels of such outputs. Numbers beyond the range, as networks overshoot, become black or white; by more
// than half of it they mean something else. Owns its scratch memory. Thread: one. Errors: ConfigError names number,
// output and item.
class OutputPixels {
  public:
    explicit OutputPixels(PixelRange range) : range_(range) {}

    // Row by row, the channels of a pixel side by side; valid until the next call, and while the slab is.
    std::span<const std::uint8_t> of(const PictureOutput& output, const SampleView& sample, const Progress& progress);

  private:
    std::uint8_t pixel_of(float number, const PictureOutput& output, const SampleView& sample) const;
    [[noreturn]] void refuse(float number, const PictureOutput& output, const SampleView& sample) const;

    PixelRange range_;
    SampleArray planes_;
    std::vector<std::uint8_t> pixels_;
};

// The size of a result that is `made` by a network which saw a picture squeezed into a square of that side (0: not
// known): `picture` enlarged as much as the network enlarges the square, so that proportions are the picture's. At most
// `longest` pixels a side and kMaxImagePixels in all, in the same proportions. Pure.
ImageSize size_in_proportion(ImageSize picture, ImageSize made, std::uint32_t side, std::uint32_t longest);

}  // namespace offramp
