#include "tests/unit/processors/decoded_png.hpp"

#include <png.h>

#include <cstring>
#include <stdexcept>

namespace offramp::test {
namespace {

void take_bytes(png_structp png, png_bytep to, png_size_t size) {
    auto& left = *static_cast<std::span<const std::byte>*>(png_get_io_ptr(png));
    if (size > left.size()) png_error(png, "truncated");
    std::memcpy(to, left.data(), size);
    left = left.subspan(size);
}

}  // namespace

DecodedPng decode_png(std::span<const std::byte> file) {
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
    png_infop info = png_create_info_struct(png);
    static DecodedPng decoded;  // static: libpng's longjmp must not skip it
    decoded = {};
    if (setjmp(png_jmpbuf(png)) != 0) throw std::runtime_error("libpng cannot read the file");
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // some files have wide rows
    png_set_read_fn(png, &file, take_bytes);
    png_read_info(png, info);
    if (png_get_color_type(png, info) != PNG_COLOR_TYPE_PALETTE || png_get_bit_depth(png, info) != 8)
        throw std::runtime_error("no 8-bit palette PNG");
    if (png_get_valid(png, info, PNG_INFO_tIME) != 0) throw std::runtime_error("the file carries a time");
    decoded.width = png_get_image_width(png, info);
    decoded.height = png_get_image_height(png, info);
    decoded.ids.resize(std::size_t{decoded.width} * decoded.height);
    for (std::uint32_t row = 0; row < decoded.height; ++row)
        png_read_row(png, decoded.ids.data() + std::size_t{row} * decoded.width, nullptr);
    png_read_end(png, nullptr);
    png_colorp colours = nullptr;
    int count = 0;
    png_get_PLTE(png, info, &colours, &count);
    for (int i = 0; i < count; ++i) decoded.palette.push_back({colours[i].red, colours[i].green, colours[i].blue});
    png_destroy_read_struct(&png, &info, nullptr);
    return decoded;
}

DecodedRgba decode_rgba_png(std::span<const std::byte> file) {
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
    png_infop info = png_create_info_struct(png);
    static DecodedRgba decoded;  // static: libpng's longjmp must not skip it
    decoded = {};
    if (setjmp(png_jmpbuf(png)) != 0) throw std::runtime_error("libpng cannot read the file");
    png_set_read_fn(png, &file, take_bytes);
    png_read_info(png, info);
    if (png_get_color_type(png, info) != PNG_COLOR_TYPE_RGB_ALPHA || png_get_bit_depth(png, info) != 8)
        throw std::runtime_error("no 8-bit RGBA PNG");
    decoded.width = png_get_image_width(png, info);
    decoded.height = png_get_image_height(png, info);
    decoded.pixels.resize(std::size_t{decoded.width} * decoded.height);
    for (std::uint32_t row = 0; row < decoded.height; ++row)
        png_read_row(png, decoded.pixels[std::size_t{row} * decoded.width].data(), nullptr);
    png_read_end(png, nullptr);
    png_destroy_read_struct(&png, &info, nullptr);
    return decoded;
}

}  // namespace offramp::test
