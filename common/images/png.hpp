#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/images/geometry.hpp"

namespace offramp {

// Reads a PNG's size from its header. Errors: UnreadableItem: 16 bits a channel, truncated, no header, too
// many pixels.
ImageSize read_png_size(std::span<const std::byte> file, std::uint64_t most_pixels = kMaxImagePixels);

// Decodes to 8-bit RGB: palettes and gray are expanded, an alpha channel is dropped, gamma and colour
// profiles are left alone, all as PIL's convert("RGB") does. `rgb` has the size's rgb_bytes(). Thread: any.
// Errors: UnreadableItem: truncated, damaged.
void decode_png(std::span<const std::byte> file, ImageSize size, std::uint8_t* rgb);

}  // namespace offramp
