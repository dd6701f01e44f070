#include "common/app/images/image_format.hpp"

#include <cstring>

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

// Two letters begin many a text. Behind them a file of pixels has zeros: four that are reserved, or the high byte of
// its header's size where a writer used those.
bool is_bmp(std::span<const std::byte> front) {
    return at(front, 0, "BM"sv) && (at(front, 6, "\0\0\0\0"sv) || at(front, 15, "\0"sv));
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

}  // namespace offramp
