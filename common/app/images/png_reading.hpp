#pragma once

#include <png.h>

#include <cstddef>
#include <cstdint>
#include <string>

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

}  // namespace offramp
