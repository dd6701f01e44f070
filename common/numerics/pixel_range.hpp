#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

// How the numbers of a network's picture become 8-bit pixels. The device, the CPU backend and the
// consumers use it, so that all give the same pixels.
namespace offramp {

// The values that mean black and white.
struct PixelRange {
    float black = 0;
    float white = 1;

    // "-1:1", "0:255", or "0:1" for any other word.
    static PixelRange named(std::string_view text);
    // 0: black, 1: white.
    constexpr float share_of(float number) const { return (number - black) / (white - black); }
    // Networks overshoot: such values become black or white. False for values outside of the range by more than half
    // of it, and for a NaN.
    static constexpr bool has_pixel(float share) { return share >= -0.5F && share <= 1.5F; }
    // Rounded after each step: a fused multiply-add gives other pixels.
    static constexpr std::uint8_t pixel_of(float share) {
        return static_cast<std::uint8_t>(std::clamp(share, 0.0F, 1.0F) * 255.0F + 0.5F);
    }

    // The problem with a number that has no pixel, to follow "holds".
    std::string objection_to(float number) const;
};

}  // namespace offramp
