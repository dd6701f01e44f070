#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace offramp::test {

// An 8-bit palette PNG as libpng reads it.
struct DecodedPng {
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    std::vector<std::uint8_t> ids;
    std::vector<std::array<std::uint8_t, 3>> palette;
};

// An 8-bit RGBA PNG as libpng reads it.
struct DecodedRgba {
    std::uint32_t width = 0;
    std::uint32_t height = 0;
    std::vector<std::array<std::uint8_t, 4>> pixels;
};

// Throws std::runtime_error for anything that is not an 8-bit RGBA PNG.
DecodedRgba decode_rgba_png(std::span<const std::byte> file);

// Throws std::runtime_error for anything that is not an 8-bit palette PNG.
DecodedPng decode_png(std::span<const std::byte> file);

}  // namespace offramp::test
