#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/app/images/geometry.hpp"

namespace offramp {

// Resizes RGB images. The result equals Image.resize() of Pillow 12 with BILINEAR or BICUBIC, bit for bit: 22-bit
// fixed-point weights, rounded to 8 bits between the two directions. Rows are always resized before columns. (Pillow 13
// begins with columns if that is cheaper, which changes some last bits of tall pictures.) Keeps scratch memory between
// calls. Thread: one at a time.
class Resizer {
  public:
    // `from` and `to` must not overlap; both sizes must have at least one pixel.
    void resize(const std::uint8_t* from, ImageSize from_size, std::uint8_t* to, ImageSize to_size);
    // Computes the same bits for a part only: `to_size` pixels, within part.width and part.height.
    void resize_part(const std::uint8_t* from, ImageSize from_size, const ResizedPart& part, std::uint8_t* to,
                     ImageSize to_size, Interpolation interpolation = Interpolation::Bilinear);
    // Resizes a whole image with 1, 3 or 4 channels, each channel by itself.
    void resize_channels_of(std::size_t channels, const std::uint8_t* from, ImageSize from_size, std::uint8_t* to,
                            ImageSize to_size, Interpolation interpolation);
    // The same for an image of one channel.
    void resize_plane(const std::uint8_t* from, ImageSize from_size, std::uint8_t* to, ImageSize to_size);
    // Frees the memory of an unusually large image.
    void trim();

  private:
    // The input pixels of one output pixel.
    struct Taps {
        std::uint32_t first = 0;
        std::uint32_t count = 0;
    };
    struct Filter {
        std::vector<Taps> taps;             // one per output pixel
        std::vector<std::int32_t> weights;  // `stride` per output pixel
        std::uint32_t stride = 0;
        // Prepares output pixels [first, first + count) for a line of `from` pixels that is resized to `to` pixels.
        void prepare(Interpolation interpolation, std::uint32_t from, std::uint64_t to, std::uint64_t first,
                     std::uint32_t count);
    };

    template <std::size_t kChannels>
    void resize_channels(const std::uint8_t* from, ImageSize from_size, const ResizedPart& part, std::uint8_t* to,
                         ImageSize to_size, Interpolation interpolation);

    Filter horizontal_, vertical_;
    std::vector<std::uint8_t> between_;
    std::vector<std::int32_t> sums_;
};

}  // namespace offramp
