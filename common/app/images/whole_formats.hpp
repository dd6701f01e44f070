#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/app/images/orientation.hpp"

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
