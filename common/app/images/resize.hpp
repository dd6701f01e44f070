#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/app/images/geometry.hpp"

namespace offramp {

// Brings an RGB image to another size. The arithmetic is that of Image.resize() of Pillow 12, BILINEAR and BICUBIC, bit
// for bit: 22-bit fixed-point weights, rounded to 8 bits between the two directions. Rows always come before columns
// (Pillow 13 begins with columns where that is cheaper, which changes some last bits of tall pictures). Owns scratch
// memory that is kept between calls. Thread: one at a time.
class Resizer {
  public:
    // `from` and `to` do not overlap; both sizes have at least one pixel.
    void resize(const std::uint8_t* from, ImageSize from_size, std::uint8_t* to, ImageSize to_size);
    // The same bits, of a part of it alone: `to_size` pixels, within part.width and part.height.
    void resize_part(const std::uint8_t* from, ImageSize from_size, const ResizedPart& part, std::uint8_t* to,
                     ImageSize to_size, Interpolation interpolation = Interpolation::Bilinear);
    // All of an image of 1, 3 or 4 channels, each by itself.
    void resize_channels_of(std::size_t channels, const std::uint8_t* from, ImageSize from_size, std::uint8_t* to,
                            ImageSize to_size, Interpolation interpolation);
    // The same for an image of one channel.
    void resize_plane(const std::uint8_t* from, ImageSize from_size, std::uint8_t* to, ImageSize to_size);
    // Gives memory back that an unusually large image took.
    void trim();

  private:
    // Which input pixels make up one output pixel, and with what weights.
    struct Taps {
        std::uint32_t first = 0;
        std::uint32_t count = 0;
    };
    struct Filter {
        std::vector<Taps> taps;             // one an output pixel
        std::vector<std::int32_t> weights;  // `stride` an output pixel
        std::uint32_t stride = 0;
        // `count` pixels from `first` on of `from` pixels that become `to`.
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
