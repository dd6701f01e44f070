#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/app/images/orientation.hpp"

namespace offramp {

// The size in a WebP file's header; the canvas of an animation. Errors: UnreadableItem: truncated, damaged, too many
// pixels.
ImageSize read_webp_size(std::span<const std::byte> file, std::uint64_t most_pixels = kMaxImagePixels);

// The orientation in the EXIF chunk; Upright if the chunk is missing or damaged.
Orientation webp_orientation(std::span<const std::byte> file);

// Decodes to 8-bit RGB like PIL's convert("RGB"): drops an alpha channel without blending, and ignores profiles. An
// animation gives its first picture, on a black canvas. `rgb` must hold size.rgb_bytes(). Thread: any. Errors:
// UnreadableItem: truncated, damaged.
void decode_webp(std::span<const std::byte> file, ImageSize size, std::uint8_t* rgb);

// Returns the alpha, one byte per pixel; empty if the file has no alpha. Errors: those of decode_webp().
std::vector<std::uint8_t> webp_alpha(std::span<const std::byte> file, ImageSize size);

}  // namespace offramp
