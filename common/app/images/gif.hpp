#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/app/images/geometry.hpp"

namespace offramp {

// The size of a GIF's canvas, extended if its first picture reaches beyond it. Errors: UnreadableItem: no picture,
// truncated, damaged, too many pixels.
ImageSize read_gif_size(std::span<const std::byte> file, std::uint64_t most_pixels = kMaxImagePixels);

// Decodes the first picture on its canvas to 8-bit RGB, like PIL's convert("RGB"). The canvas around the picture gets
// the transparent colour, or the palette's first colour if there is none. `rgb` must hold size.rgb_bytes(). Thread:
// any. Errors: UnreadableItem: truncated, damaged.
void decode_gif(std::span<const std::byte> file, ImageSize size, std::uint8_t* rgb);

// Returns the same picture's alpha, one byte per pixel: 0 for the transparent colour, otherwise 255; empty if the GIF
// has no transparent colour. Errors: as for decode_gif().
std::vector<std::uint8_t> gif_alpha(std::span<const std::byte> file, ImageSize size);

}  // namespace offramp
