#include "common/app/images/png.hpp"

#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>

#include "common/app/images/image_decode.hpp"
#include "common/app/images/image_format.hpp"
#include "common/app/images/unreadable_item.hpp"

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

// Contains everything that may longjmp, in a frame without objects. Returns false on errors: `reading` has the reason.
bool decode_rows(png_structp png, png_infop info, PngReading* reading, std::uint32_t width, std::uint32_t height,
                 PngChannels channels, std::uint8_t* to) {
    if (setjmp(png_jmpbuf(png)) != 0) return false;
    png_set_read_fn(png, reading, read_bytes);
    const int passes = begin_rows(png, info, reading, width, height, channels);
    const std::size_t row_bytes = std::size_t{width} * static_cast<std::size_t>(channels);
    for (int pass = 0; pass < passes; ++pass)
        for (std::uint32_t y = 0; y < height; ++y) png_read_row(png, to + y * row_bytes, nullptr);
    png_read_end(png, nullptr);
    return true;
}

void decode(std::span<const std::byte> file, ImageSize size, PngChannels channels, std::uint8_t* to) {
    PngReading reading{.next = file.data(), .left = file.size(), .ran_out = false, .message = {}, .largest = 0};
    png_structp png = make_png_reader(&reading);
    png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
    const bool decoded = info != nullptr && decode_rows(png, info, &reading, size.width, size.height, channels, to);
    png_destroy_read_struct(&png, &info, nullptr);
    if (!decoded) throw UnreadableItem(png_problem(reading, file.size()));
    warn_of_16_bits(reading.largest);
}

constexpr std::size_t kColourTypeAt = 25;  // the byte of a PNG's header

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

ImageSize read_png_size(std::span<const std::byte> file, std::uint64_t most_pixels) {
    constexpr std::size_t kHeaderEnd = 33;  // signature, length, IHDR, 13 bytes, checksum
    if (file.size() < kHeaderEnd) throw UnreadableItem(truncated_png(file.size()));
    const auto* const bytes = reinterpret_cast<const png_byte*>(file.data());
    if (std::memcmp(bytes + 12, "IHDR", 4) != 0) throw UnreadableItem("damaged PNG: it does not begin with its header");
    const ImageSize size{big_endian_at(file, 16), big_endian_at(file, 20)};
    if (size.pixels() == 0) throw UnreadableItem("damaged PNG: it has no pixels");
    check_pixels(size, most_pixels);
    return size;
}

void decode_png(std::span<const std::byte> file, ImageSize size, std::uint8_t* rgb) {
    decode(file, size, PngChannels::Rgb, rgb);
}

std::vector<std::uint8_t> png_alpha(std::span<const std::byte> file, ImageSize size) {
    const bool has_channel = (std::to_integer<unsigned>(file[kColourTypeAt]) & PNG_COLOR_MASK_ALPHA) != 0;
    if (!has_channel && png_chunk(picture_bytes(file), "tRNS", 1).empty()) return {};
    std::vector<std::uint8_t> rgba(size.pixels() * 4), alpha(size.pixels());
    decode(file, size, PngChannels::Rgba, rgba.data());
    for (std::size_t i = 0; i < alpha.size(); ++i) alpha[i] = rgba[4 * i + 3];
    return alpha;
}

// A chunk is the length of its data, four letters, the data, a checksum.
std::vector<std::byte> png_chunk(const PictureBytes& file, std::string_view kind, std::size_t most) {
    constexpr std::uint64_t kSignature = 8, kFront = 8, kChecksum = 4;
    std::array<std::byte, kFront> front{};
    for (std::uint64_t at = kSignature; file.read_at(at, front) == front.size();) {
        const std::uint32_t bytes = big_endian_at(front, 0);
        if (std::memcmp(front.data() + 4, kind.data(), 4) == 0) {
            std::vector<std::byte> data(std::min<std::size_t>(bytes, most));
            data.resize(file.read_at(at + kFront, data));
            return data;
        }
        if (std::memcmp(front.data() + 4, "IEND", 4) == 0) break;
        at += kFront + bytes + kChecksum;
    }
    return {};
}

Orientation png_orientation(const PictureBytes& file) {
    constexpr std::size_t kMostExif = std::size_t{1} << 20U;
    constexpr std::string_view kAsInJpeg("Exif\0\0", 6);  // some writers add this prefix
    const std::vector<std::byte> exif = png_chunk(file, "eXIf", kMostExif);
    std::span<const std::byte> tiff(exif);
    if (tiff.size() >= kAsInJpeg.size() && std::memcmp(tiff.data(), kAsInJpeg.data(), kAsInJpeg.size()) == 0)
        tiff = tiff.subspan(kAsInJpeg.size());
    return exif_orientation(tiff);
}

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
