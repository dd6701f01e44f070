#include "common/app/images/png.hpp"

#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <string>

#include "common/app/images/image_decode.hpp"
#include "common/app/images/image_format.hpp"
#include "common/app/images/png_reading.hpp"
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

}  // namespace offramp
