#include "common/app/images/png_reading.hpp"

#include <algorithm>
#include <csetjmp>
#include <cstdio>

#include "common/app/images/image_format.hpp"

namespace offramp {
namespace {

[[noreturn]] void keep_error(png_structp png, png_const_charp message) {
    auto* const reading = static_cast<PngReading*>(png_get_error_ptr(png));
    std::snprintf(reading->message, sizeof reading->message, "%s", message);
    png_longjmp(png, 1);
}

void ignore_warning(png_structp, png_const_charp) {}

// Scales a row of 16-bit RGB or RGBA in place.
void scale_to_8_bits(png_structp png, png_row_infop row, png_bytep bytes) {
    auto* const reading = static_cast<PngReading*>(png_get_user_transform_ptr(png));
    const std::size_t numbers = std::size_t{row->width} * row->channels;
    for (std::size_t i = 0; i < numbers; ++i) {
        const unsigned number = (unsigned{bytes[2 * i]} << 8U) | bytes[2 * i + 1];
        const bool is_colour = row->channels == 3 || i % 4 != 3;
        if (is_colour) reading->largest = static_cast<std::uint16_t>(std::max<unsigned>(reading->largest, number));
        bytes[i] = in_8_of_16_bits(number);
    }
}

}  // namespace

png_structp make_png_reader(PngReading* reading) {
    return png_create_read_struct(PNG_LIBPNG_VER_STRING, reading, keep_error, ignore_warning);
}

int begin_rows(png_structp png, png_infop info, PngReading* reading, std::uint32_t width, std::uint32_t height,
               PngChannels channels) {
    png_read_info(png, info);
    png_set_palette_to_rgb(png);
    png_set_expand_gray_1_2_4_to_8(png);
    png_set_gray_to_rgb(png);
    if (channels == PngChannels::Rgb) {
        png_set_strip_alpha(png);
    } else {
        if (png_get_valid(png, info, PNG_INFO_tRNS) != 0) png_set_tRNS_to_alpha(png);
        png_set_add_alpha(png, 0xffff, PNG_FILLER_AFTER);
    }
    if (png_get_bit_depth(png, info) == 16) {
        png_set_read_user_transform_fn(png, scale_to_8_bits);
        png_set_user_transform_info(png, reading, 8, static_cast<int>(channels));
    }
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) != std::size_t{width} * static_cast<std::size_t>(channels) ||
        png_get_image_height(png, info) != height)
        png_error(png, "its header is inconsistent");
    return passes;
}

std::string truncated_png(std::uint64_t file_bytes) {
    return "truncated PNG: its " + std::to_string(file_bytes) + " bytes end before the image does";
}

std::string png_problem(const PngReading& reading, std::uint64_t file_bytes) {
    if (reading.ran_out) return truncated_png(file_bytes);
    return std::string("damaged PNG: ") + (reading.message[0] == '\0' ? "out of memory" : reading.message);
}

}  // namespace offramp
