#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/app/images/geometry.hpp"

namespace offramp {

// Reads the header of a Windows or OS/2 BMP file. Errors: UnreadableItem: unsupported layout, truncated, damaged, too
// many pixels.
ImageSize read_bmp_size(std::span<const std::byte> file, std::uint64_t most_pixels = kMaxImagePixels);

// Decodes to 8-bit RGB like PIL's convert("RGB"): expands palettes and drops an alpha channel. Pixels that run lengths
// leave out get the palette's first colour. `rgb` must hold size.rgb_bytes(). Thread: any. Errors: UnreadableItem:
// truncated, damaged.
void decode_bmp(std::span<const std::byte> file, ImageSize size, std::uint8_t* rgb);

// Returns the alpha, one byte per pixel; empty if the file has no alpha mask. Errors: as for decode_bmp().
std::vector<std::uint8_t> bmp_alpha(std::span<const std::byte> file, ImageSize size);

}  // namespace offramp
