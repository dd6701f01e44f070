#include "common/images/png_reading.hpp"

#include <csetjmp>
#include <cstdio>

namespace offramp {
namespace {

[[noreturn]] void keep_error(png_structp png, png_const_charp message) {
    auto* const reading = static_cast<PngReading*>(png_get_error_ptr(png));
    std::snprintf(reading->message, sizeof reading->message, "%s", message);
    png_longjmp(png, 1);
}

void ignore_warning(png_structp, png_const_charp) {}

}  // namespace

png_structp make_png_reader(PngReading* reading) {
    return png_create_read_struct(PNG_LIBPNG_VER_STRING, reading, keep_error, ignore_warning);
}

int begin_rgb(png_structp png, png_infop info, std::uint32_t width, std::uint32_t height) {
    png_read_info(png, info);
    png_set_palette_to_rgb(png);
    png_set_expand_gray_1_2_4_to_8(png);
    png_set_gray_to_rgb(png);
    png_set_strip_alpha(png);
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) != std::size_t{width} * 3 || png_get_image_height(png, info) != height)
        png_error(png, "its header disagrees with itself");
    return passes;
}

std::string truncated_png(std::uint64_t file_bytes) {
    return "truncated PNG: its " + std::to_string(file_bytes) + " bytes end before the image does";
}

std::string png_problem(const PngReading& reading, std::uint64_t file_bytes) {
    if (reading.ran_out) return truncated_png(file_bytes);
    return std::string("damaged PNG: ") + (reading.message[0] == '\0' ? "no memory" : reading.message);
}

}  // namespace offramp
