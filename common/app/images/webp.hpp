#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/app/images/orientation.hpp"

namespace offramp {

// The size in a WebP file's header; of an animated one its canvas. Errors: UnreadableItem: truncated, damaged, too many
// pixels.
ImageSize read_webp_size(std::span<const std::byte> file, std::uint64_t most_pixels = kMaxImagePixels);

// The orientation in its EXIF chunk; Upright when it has none or that is damaged.
Orientation webp_orientation(std::span<const std::byte> file);

// Decodes to 8-bit RGB, of an animated one the first picture, with black where that leaves the canvas free; an alpha
// channel is dropped, not blended, and profiles are left alone, as PIL's convert("RGB") does. `rgb` has the size's
// rgb_bytes(). Thread: any. Errors: UnreadableItem: truncated, damaged.
void decode_webp(std::span<const std::byte> file, ImageSize size, std::uint8_t* rgb);

// Its alpha, a byte a pixel; empty where the file has none. Errors: those of decode_webp().
std::vector<std::uint8_t> webp_alpha(std::span<const std::byte> file, ImageSize size);

}  // namespace offramp
