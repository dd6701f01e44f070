#pragma once

#include <png.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/app/images/orientation.hpp"
#include "common/app/images/picture_bytes.hpp"

namespace offramp {

// The state of libpng's callbacks while a file is read. Plain data only: errors use longjmp, which runs no destructors.
struct PngReading {
    const std::byte* next;
    std::size_t left;
    bool ran_out;
    char message[160];
    std::uint16_t largest;  // largest colour value so far, if channels have 16 bits
};

// Creates a libpng reader. An error writes `reading->message` and longjmps; warnings are dropped. The caller owns the
// reader. Null if memory is exhausted.
png_structp make_png_reader(PngReading* reading);

// The channels of each pixel, one byte each; alpha is 255 if the file has no alpha.
enum class PngChannels : std::uint8_t { Rgb = 3, Rgba = 4 };

// Reads the header, and sets libpng up to convert any file to rows of these channels. 16 bits are scaled to 8, and the
// largest colour value is kept in `reading`. Returns the number of interlacing passes. May longjmp, also if the header
// has another size: call it after setjmp, in a frame without objects.
int begin_rows(png_structp png, png_infop info, PngReading* reading, std::uint32_t width, std::uint32_t height,
               PngChannels channels);

// The UnreadableItem texts for a file of `file_bytes` that ends too early, and for a file that could not be read.
std::string truncated_png(std::uint64_t file_bytes);
std::string png_problem(const PngReading& reading, std::uint64_t file_bytes);

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
