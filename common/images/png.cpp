#include "common/images/png.hpp"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <string>

#include "common/images/image_decode.hpp"
#include "common/images/png_reading.hpp"
#include "common/images/unreadable_item.hpp"

namespace offramp {
namespace {

void read_bytes(png_structp png, png_bytep to, std::size_t bytes) {
    auto* const reading = static_cast<PngReading*>(png_get_io_ptr(png));
    if (bytes > reading->left) {
        reading->ran_out = true;
        png_error(png, "the file ends too early");
    }
    std::memcpy(to, reading->next, bytes);
    reading->next += bytes;
    reading->left -= bytes;
}

// Everything that may longjmp, in a frame without objects. False: `reading` says why.
bool decode_rows(png_structp png, png_infop info, PngReading* reading, std::uint32_t width, std::uint32_t height,
                 std::uint8_t* rgb) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    png_set_read_fn(png, reading, read_bytes);
    const int passes = begin_rgb(png, info, width, height);
    const std::size_t row_bytes = std::size_t{width} * 3;
    for (int pass = 0; pass < passes; ++pass)
        for (std::uint32_t y = 0; y < height; ++y) png_read_row(png, rgb + y * row_bytes, nullptr);
    png_read_end(png, nullptr);
    return true;
}

}  // namespace

ImageSize read_png_size(std::span<const std::byte> file, std::uint64_t most_pixels) {
    constexpr std::size_t kHeaderEnd = 33;  // signature, length, IHDR, 13 bytes, checksum
    if (file.size() < kHeaderEnd) throw UnreadableItem(truncated_png(file.size()));
    const auto* const bytes = reinterpret_cast<const png_byte*>(file.data());
    if (std::memcmp(bytes + 12, "IHDR", 4) != 0) throw UnreadableItem("damaged PNG: it does not begin with its header");
    const auto number = [bytes](std::size_t at) {
        return (std::uint32_t{bytes[at]} << 24) | (std::uint32_t{bytes[at + 1]} << 16) |
               (std::uint32_t{bytes[at + 2]} << 8) | std::uint32_t{bytes[at + 3]};
    };
    const ImageSize size{number(16), number(20)};
    if (bytes[24] == 16) throw UnreadableItem("PNG with 16 bits a channel; only 8 bits are read");
    if (size.pixels() == 0) throw UnreadableItem("damaged PNG: it has no pixels");
    check_pixels(size, most_pixels);
    return size;
}

void decode_png(std::span<const std::byte> file, ImageSize size, std::uint8_t* rgb) {
    PngReading reading{.next = file.data(), .left = file.size(), .ran_out = false, .message = {}};
    png_structp png = make_png_reader(&reading);
    png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
    const bool decoded = info != nullptr && decode_rows(png, info, &reading, size.width, size.height, rgb);
    png_destroy_read_struct(&png, &info, nullptr);
    if (decoded) return;
    throw UnreadableItem(png_problem(reading, file.size()));
}

}  // namespace offramp
