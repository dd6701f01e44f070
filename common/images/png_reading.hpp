#pragma once

#include <png.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace offramp {

// What libpng calls back with while a file is read. Plain data only: an error leaves by longjmp, which runs no
// destructor.
struct PngReading {
    const std::byte* next;
    std::size_t left;
    bool ran_out;
    char message[160];
};

// A libpng reader whose errors end in `reading->message`, by longjmp, and whose warnings are dropped. Owned by the
// caller. Null: no memory.
png_structp make_png_reader(PngReading* reading);

// Reads the header and has libpng give rows of 8-bit RGB, three bytes a pixel, whatever the file has. How many passes
// its rows come in. May longjmp, also where the header has another size: call it behind setjmp, in a frame without
// objects.
int begin_rgb(png_structp png, png_infop info, std::uint32_t width, std::uint32_t height);

// What an UnreadableItem says of a file of `file_bytes` that ends too early; and of one that could not be read.
std::string truncated_png(std::uint64_t file_bytes);
std::string png_problem(const PngReading& reading, std::uint64_t file_bytes);

}  // namespace offramp
