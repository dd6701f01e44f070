#pragma once

#include <cstddef>
#include <cstdint>

namespace offramp {

struct ImageSize {
    std::uint32_t width = 0;
    std::uint32_t height = 0;

    bool operator==(const ImageSize&) const = default;
    std::uint64_t pixels() const { return std::uint64_t{width} * height; }
    std::size_t rgb_bytes() const { return static_cast<std::size_t>(pixels()) * 3; }
};

// A larger image is refused before a byte of it is decoded: a few kilobytes can claim gigabytes.
inline constexpr std::uint64_t kMaxImagePixels = 100'000'000;

}  // namespace offramp
