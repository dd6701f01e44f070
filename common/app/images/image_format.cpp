#include "common/app/images/image_format.hpp"

#include <png.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <csetjmp>
#include <cstdint>
#include <cstring>
#include <map>
#include <string_view>

#include "common/app/images/jpeg.hpp"
#include "common/app/images/png.hpp"
#include "common/base/log.hpp"

namespace offramp {
namespace {

using namespace std::string_view_literals;

bool at(std::span<const std::byte> bytes, std::size_t offset, std::string_view magic) {
    return bytes.size() >= offset + magic.size() && std::memcmp(bytes.data() + offset, magic.data(), magic.size()) == 0;
}

bool is_heif(std::span<const std::byte> front) {
    if (!at(front, 4, "ftyp"sv)) return false;
    return at(front, 8, "hei"sv) || at(front, 8, "hev"sv) || at(front, 8, "mif1"sv) || at(front, 8, "msf1"sv) ||
           at(front, 8, "avif"sv) || at(front, 8, "avis"sv);
}

// Many texts begin with these two letters. A BMP also has zeros after them: four reserved bytes, or, if a writer used
// those, the high byte of the header's size.
bool is_bmp(std::span<const std::byte> front) {
    return at(front, 0, "BM"sv) && (at(front, 6, "\0\0\0\0"sv) || at(front, 15, "\0"sv));
}

using namespace std::string_view_literals;

bool has_at(std::span<const std::byte> bytes, std::size_t at, std::string_view text) {
    return at <= bytes.size() && bytes.size() - at >= text.size() &&
           std::memcmp(bytes.data() + at, text.data(), text.size()) == 0;
}

std::size_t byte_at(std::span<const std::byte> bytes, std::size_t at) {
    return std::to_integer<std::size_t>(bytes[at]);
}

// The profile is in segments, numbered from 1, in any order.
std::vector<std::byte> jpeg_profile(std::span<const std::byte> file) {
    constexpr std::string_view kName = "ICC_PROFILE\0"sv;
    std::map<std::size_t, std::span<const std::byte>> parts;
    std::size_t count = 0;
    for_each_jpeg_segment(file, [&](unsigned type, std::span<const std::byte> segment) {
        if (type == 0xe2 && has_at(segment, 0, kName) && segment.size() > kName.size() + 2) {
            count = byte_at(segment, kName.size() + 1);
            parts.emplace(byte_at(segment, kName.size()), segment.subspan(kName.size() + 2));
        }
        return true;
    });
    if (parts.size() != count || count == 0 || parts.begin()->first != 1 || parts.rbegin()->first != count) return {};
    std::vector<std::byte> profile;
    for (const auto& [number, part] : parts) profile.insert(profile.end(), part.begin(), part.end());
    return profile;
}

std::vector<std::byte> webp_profile(std::span<const std::byte> file) {
    for (std::size_t at = 12; at + 8 <= file.size();) {
        const std::size_t length = little_endian_at(file, at + 4);
        if (length > file.size() - at - 8) break;
        if (has_at(file, at, "ICCP"sv)) {
            const auto profile = file.subspan(at + 8, length);
            return {profile.begin(), profile.end()};
        }
        at += 8 + length + length % 2;
    }
    return {};
}

void read_from_memory(png_structp png, png_bytep to, std::size_t bytes) {
    auto* const reading = static_cast<PngReading*>(png_get_io_ptr(png));
    if (bytes > reading->left) png_error(png, "the file ends too early");
    std::memcpy(to, reading->next, bytes);
    reading->next += bytes;
    reading->left -= bytes;
}

// Contains everything that may longjmp, in a frame without objects. Leaves `profile` null if there is no profile.
void read_front(png_structp png, png_infop info, PngReading* reading, png_bytep* profile, png_uint_32* bytes) {
    if (setjmp(png_jmpbuf(png)) != 0) return;
    png_set_read_fn(png, reading, read_from_memory);
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_read_info(png, info);
    png_charp name = nullptr;
    int compression = 0;
    png_get_iCCP(png, info, &name, &compression, profile, bytes);
}

// libpng decompresses the profile, and drops a profile that does not fit the picture.
std::vector<std::byte> png_profile(std::span<const std::byte> file) {
    PngReading reading{.next = file.data(), .left = file.size(), .ran_out = false, .message = {}, .largest = 0};
    png_structp png = make_png_reader(&reading);
    png_infop info = png == nullptr ? nullptr : png_create_info_struct(png);
    png_bytep bytes = nullptr;
    png_uint_32 size = 0;
    if (info != nullptr) read_front(png, info, &reading, &bytes, &size);
    std::vector<std::byte> profile;
    if (bytes != nullptr) {
        const auto found = std::as_bytes(std::span(bytes, size));
        profile.assign(found.begin(), found.end());
    }
    png_destroy_read_struct(&png, &info, nullptr);
    return profile;
}

}  // namespace

ImageFormat image_format(std::span<const std::byte> front) {
    if (at(front, 0, "\xff\xd8\xff"sv)) return ImageFormat::Jpeg;
    if (at(front, 0, "\x89PNG\r\n\x1a\n"sv)) return ImageFormat::Png;
    if (at(front, 0, "GIF87a"sv) || at(front, 0, "GIF89a"sv)) return ImageFormat::Gif;
    if (is_bmp(front)) return ImageFormat::Bmp;
    if (at(front, 0, "II*\0"sv) || at(front, 0, "MM\0*"sv)) return ImageFormat::Tiff;
    if (at(front, 0, "II+\0"sv) || at(front, 0, "MM\0+"sv)) return ImageFormat::Tiff;  // BigTIFF
    if (at(front, 0, "RIFF"sv) && at(front, 8, "WEBP"sv)) return ImageFormat::Webp;
    if (is_heif(front)) return ImageFormat::Heif;
    if (at(front, 0, "\0\0\0\x0cJXL "sv) || at(front, 0, "\xff\x0a"sv)) return ImageFormat::JpegXl;
    if (at(front, 0, "\0\0\0\x0cjP  "sv)) return ImageFormat::Jpeg2000;
    return ImageFormat::Unknown;
}

std::string_view to_string(ImageFormat format) {
    switch (format) {
        case ImageFormat::Unknown:
            return "unknown";
        case ImageFormat::Jpeg:
            return "JPEG";
        case ImageFormat::Png:
            return "PNG";
        case ImageFormat::Gif:
            return "GIF";
        case ImageFormat::Bmp:
            return "BMP";
        case ImageFormat::Tiff:
            return "TIFF";
        case ImageFormat::Webp:
            return "WebP";
        case ImageFormat::Heif:
            return "HEIF or AVIF";
        case ImageFormat::JpegXl:
            return "JPEG XL";
        case ImageFormat::Jpeg2000:
            return "JPEG 2000";
    }
    return "unknown";
}

// ICC.1: the size, 12 bytes, the data's colour space, 16 bytes, "acsp"; in total a header of 128 bytes, then the number
// of tags.
bool is_rgb_profile(std::span<const std::byte> profile) {
    constexpr std::size_t kLeast = 132, kMost = std::size_t{16} << 20U;
    return profile.size() >= kLeast && profile.size() <= kMost && has_at(profile, 16, "RGB "sv) &&
           has_at(profile, 36, "acsp"sv);
}

std::vector<std::byte> colour_profile(ImageFormat format, std::span<const std::byte> file) {
    std::vector<std::byte> profile;
    if (format == ImageFormat::Jpeg) profile = jpeg_profile(file);
    if (format == ImageFormat::Png) profile = png_profile(file);
    if (format == ImageFormat::Webp) profile = webp_profile(file);
    return is_rgb_profile(profile) ? profile : std::vector<std::byte>();
}

std::string warning_about_16_bits(std::uint16_t largest) {
    constexpr int kMostOfDark = 14;
    const int bits = std::bit_width(largest);
    if (bits == 0 || bits > kMostOfDark) return {};
    return "a picture with 16 bits per channel uses only " + std::to_string(bits) + " of them (its largest value is " +
           std::to_string(largest) +
           "): 65535 becomes 255, so the picture comes out dark. Stretch its values first, for example with "
           "ImageMagick's `-evaluate multiply " +
           std::to_string(1U << static_cast<unsigned>(16 - bits)) + "`. Further pictures like it are not reported";
}

void warn_of_16_bits(std::uint16_t largest) {
    static std::atomic<bool> was_reported = false;
    if (was_reported) return;
    if (const std::string warning = warning_about_16_bits(largest); !warning.empty() && !was_reported.exchange(true))
        spdlog::warn("{}", warning);
}

}  // namespace offramp
