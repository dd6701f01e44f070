#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/app/images/geometry.hpp"

namespace offramp {

// The canvas of a GIF file, with room for its first picture where that goes beyond. Errors: UnreadableItem: no picture,
// truncated, damaged, too many pixels.
ImageSize read_gif_size(std::span<const std::byte> file, std::uint64_t most_pixels = kMaxImagePixels);

// Decodes the first picture to 8-bit RGB, on its canvas, as PIL's convert("RGB") gives it: where the picture leaves the
// canvas free, there is its transparent colour, else the first one of its palette. `rgb` has the size's rgb_bytes().
// Thread: any. Errors: UnreadableItem: truncated, damaged.
void decode_gif(std::span<const std::byte> file, ImageSize size, std::uint8_t* rgb);

// A byte a pixel of the same: 0 where its colour is the transparent one, else 255. Empty: it has none. Errors: the
// same.
std::vector<std::uint8_t> gif_alpha(std::span<const std::byte> file, ImageSize size);

}  // namespace offramp
