#pragma once

#include <png.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace offramp {

// The state of libpng's callbacks while a file is read. Plain data only: an error leaves by longjmp, which runs no
// destructor.
struct PngReading {
    const std::byte* next;
    std::size_t left;
    bool ran_out;
    char message[160];
    std::uint16_t largest;  // number of a colour so far, where a channel has 16 bits
};

// A libpng reader whose errors end in `reading->message`, by longjmp, and whose warnings are dropped. Owned by the
// caller. Null: no memory.
png_structp make_png_reader(PngReading* reading);

// The channels of each pixel in rows, a byte each; alpha is 255 where the file has none.
enum class PngChannels : std::uint8_t { Rgb = 3, Rgba = 4 };

// Reads the header and has libpng give rows of such bytes, whatever the file has; 16 bits are scaled to 8, the largest
// number of a colour is kept in `reading`. How many passes its rows come in. May longjmp, also where the header has
// another size: call it behind setjmp, in a frame without objects.
int begin_rows(png_structp png, png_infop info, PngReading* reading, std::uint32_t width, std::uint32_t height,
               PngChannels channels);

// The UnreadableItem text of a file of `file_bytes` that ends too early; and of one that could not be read.
std::string truncated_png(std::uint64_t file_bytes);
std::string png_problem(const PngReading& reading, std::uint64_t file_bytes);

}  // namespace offramp
