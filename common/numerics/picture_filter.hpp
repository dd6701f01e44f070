#pragma once

#include <cstdint>

// The filter that resizes pictures, as in Pillow: the same numbers on the CPU and in device code, which must be
// compiled without fused multiply-add.
namespace offramp {

// The filter for resizing: a triangle, or Keys' cubic with a = -0.5. Both widen when a picture shrinks (antialias).
enum class Interpolation : std::uint8_t { Bilinear, Bicubic };

// A weight has this many fractional bits: 32 minus a pixel's 8 minus 2 spare bits.
inline constexpr int kFilterBits = 22;

// The filter along one side, for a line of `from` pixels that is resized to `to` pixels.
struct PictureFilter {
    Interpolation interpolation = Interpolation::Bilinear;
    std::uint32_t from = 1;
    double scale = 1;  // from / to
    double reach = 1;  // half the filter's width, in pixels of `from`
    double narrowing = 1;

    constexpr PictureFilter(Interpolation way, std::uint32_t from_pixels, std::uint64_t to_pixels)
        : interpolation(way), from(from_pixels) {
        scale = static_cast<double>(from) / static_cast<double>(to_pixels);
        const double widening = scale > 1.0 ? scale : 1.0;
        reach = (way == Interpolation::Bicubic ? 2.0 : 1.0) * widening;
        narrowing = 1.0 / widening;
    }

    // The most pixels of `from` that one new pixel needs.
    constexpr std::uint32_t most_taps() const {
        const auto whole = static_cast<std::uint32_t>(reach);
        return (whole < reach ? whole + 1 : whole) * 2 + 1;
    }
    constexpr double centre(std::uint64_t pixel) const { return (static_cast<double>(pixel) + 0.5) * scale; }
    // The pixels of `from` that the new pixel needs: [first, end).
    constexpr std::uint32_t first_of(std::uint64_t pixel) const {
        const int first = static_cast<int>(centre(pixel) - reach + 0.5);
        return first < 0 ? 0U : static_cast<std::uint32_t>(first);
    }
    constexpr std::uint32_t end_of(std::uint64_t pixel) const {
        const auto end = static_cast<std::uint32_t>(centre(pixel) + reach + 0.5);
        return end < from ? end : from;
    }
    // The weight of a pixel of `from`, before all weights of a new pixel are divided by their sum.
    constexpr double weight(std::uint32_t tap, double centre_of_pixel) const {
        constexpr double kA = -0.5;
        const double offset = (static_cast<int>(tap) - centre_of_pixel + 0.5) * narrowing;
        const double distance = offset < 0 ? -offset : offset;
        if (interpolation == Interpolation::Bilinear) return distance < 1.0 ? 1.0 - distance : 0.0;
        if (distance < 1.0) return ((kA + 2.0) * distance - (kA + 3.0)) * distance * distance + 1.0;
        return distance < 2.0 ? (((distance - 5.0) * distance + 8.0) * distance - 4.0) * kA : 0.0;
    }
    // The weights of new pixel `pixel`, as fixed-point numbers: weights[i] is that of pixel first_of(pixel) + i.
    constexpr void weights(std::uint64_t pixel, std::int32_t* weights) const {
        const double middle = centre(pixel);
        const std::uint32_t first = first_of(pixel);
        const std::uint32_t end = end_of(pixel);
        double total = 0;
        for (std::uint32_t tap = first; tap < end; ++tap) total += weight(tap, middle);
        for (std::uint32_t tap = first; tap < end; ++tap) {
            const double exact = total == 0 ? weight(tap, middle) : weight(tap, middle) / total;
            weights[tap - first] = static_cast<std::int32_t>(exact * (1 << kFilterBits) + (exact < 0 ? -0.5 : 0.5));
        }
    }
};

// A sum of pixels times weights, which began with half of one, as a pixel.
constexpr std::uint8_t pixel_of_sum(std::int32_t sum) {
    const std::int32_t value = sum >> kFilterBits;
    return static_cast<std::uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
}
inline constexpr std::int32_t kHalfOfSum = 1 << (kFilterBits - 1);

}  // namespace offramp
