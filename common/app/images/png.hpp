#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/app/images/orientation.hpp"
#include "common/app/images/picture_bytes.hpp"

namespace offramp {

// Reads a PNG's size from its header. Errors: UnreadableItem: truncated, no header, too many pixels.
ImageSize read_png_size(std::span<const std::byte> file, std::uint64_t most_pixels = kMaxImagePixels);

// Decodes to 8-bit RGB: palettes and gray are expanded, an alpha channel is dropped, gamma and colour
// profiles are left alone, all as PIL's convert("RGB") does; 16 bits are scaled to 8, to the nearest. `rgb` has the
// size's rgb_bytes(). Thread: any. Errors: UnreadableItem: truncated, damaged.
void decode_png(std::span<const std::byte> file, ImageSize size, std::uint8_t* rgb);

// Its alpha, a byte a pixel, that of a palette and of a transparent colour too; empty where the file has none. Errors:
// those of decode_png().
std::vector<std::uint8_t> png_alpha(std::span<const std::byte> file, ImageSize size);

// The orientation in its EXIF chunk, at any position; Upright when it has none or that is damaged. Blocks: on the disk.
Orientation png_orientation(const PictureBytes& file);

// The front of a PNG's first chunk of that kind, at most `most` bytes of its data; empty: it has none.
std::vector<std::byte> png_chunk(const PictureBytes& file, std::string_view kind, std::size_t most);

}  // namespace offramp
