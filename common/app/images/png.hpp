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

// Decodes to 8-bit RGB like PIL's convert("RGB"): expands palettes and gray, drops an alpha channel, ignores gamma and
// colour profiles. 16 bits are scaled to 8, rounded to the nearest. `rgb` must hold size.rgb_bytes(). Thread: any.
// Errors: UnreadableItem: truncated, damaged.
void decode_png(std::span<const std::byte> file, ImageSize size, std::uint8_t* rgb);

// Returns the alpha, one byte per pixel, also of a palette or a transparent colour; empty if the file has no alpha.
// Errors: those of decode_png().
std::vector<std::uint8_t> png_alpha(std::span<const std::byte> file, ImageSize size);

// The orientation in the EXIF chunk, anywhere in the file; Upright if the chunk is missing or damaged. Blocks: on the
// disk.
Orientation png_orientation(const PictureBytes& file);

// The first `most` bytes of the data of a PNG's first chunk of this kind; empty if there is no such chunk.
std::vector<std::byte> png_chunk(const PictureBytes& file, std::string_view kind, std::size_t most);

}  // namespace offramp
