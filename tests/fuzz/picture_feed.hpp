#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/app/images/unreadable_item.hpp"
#include "common/base/error.hpp"
#include "tests/fuzz/exact_copy.hpp"

namespace offramp {

inline constexpr std::uint64_t kMostFuzzedPixels = 1 << 16;  // decoding more pixels proves nothing more

// Passes one input to the three functions of a picture format.
template <auto ReadSize, auto Decode, auto Alpha>
void feed_picture(std::span<const std::byte> input) {
    ExactCopy copy(input);
    try {
        const auto size = ReadSize(copy.bytes(), kMostFuzzedPixels);
        expect(size.pixels() > 0 && size.pixels() <= kMostFuzzedPixels,
               "a picture has pixels, and no more than it may");
        std::vector<std::uint8_t> rgb(size.rgb_bytes());
        Decode(copy.bytes(), size, rgb.data());
        const auto alpha = Alpha(copy.bytes(), size);
        expect(alpha.empty() || alpha.size() == size.pixels(), "alpha has a byte a pixel");
    } catch (const UnreadableItem& refused) {
        expect(!std::string_view(refused.what()).empty(), "a refusal has a reason");
    }
}

}  // namespace offramp
