#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/app/images/geometry.hpp"

namespace offramp {

// Reads the header of a Windows or OS/2 BMP file. Errors: UnreadableItem: a layout that is not read, truncated,
// damaged, too many pixels.
ImageSize read_bmp_size(std::span<const std::byte> file, std::uint64_t most_pixels = kMaxImagePixels);

// Decodes to 8-bit RGB, as PIL's convert("RGB") gives it: palettes are expanded, an alpha channel is dropped, pixels
// that run lengths leave out have the palette's first colour. `rgb` has the size's rgb_bytes(). Thread: any. Errors:
// UnreadableItem: truncated, damaged.
void decode_bmp(std::span<const std::byte> file, ImageSize size, std::uint8_t* rgb);

// A byte a pixel, of a file whose masks have one for alpha. Empty: it has none. Errors: the same.
std::vector<std::uint8_t> bmp_alpha(std::span<const std::byte> file, ImageSize size);

}  // namespace offramp
