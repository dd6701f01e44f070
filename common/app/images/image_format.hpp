#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace offramp {

// A file's format, detected from its first bytes. Heif, JpegXl and Jpeg2000 are recognized but not supported.
enum class ImageFormat { Unknown, Jpeg, Png, Gif, Bmp, Tiff, Webp, Heif, JpegXl, Jpeg2000 };

inline constexpr std::size_t kMagicBytes = 16;  // enough of a file to detect its format

// The number in `bytes` (at most 4) at `at`, all inside the file.
inline std::uint32_t little_endian_at(std::span<const std::byte> file, std::size_t at, std::size_t bytes = 4) {
    std::uint32_t number = 0;
    for (std::size_t i = bytes; i-- > 0;) number = (number << 8U) | std::to_integer<std::uint32_t>(file[at + i]);
    return number;
}
inline std::uint32_t big_endian_at(std::span<const std::byte> file, std::size_t at, std::size_t bytes = 4) {
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < bytes; ++i) number = (number << 8U) | std::to_integer<std::uint32_t>(file[at + i]);
    return number;
}

ImageFormat image_format(std::span<const std::byte> front);
std::string_view to_string(ImageFormat format);

// The ICC profile of a JPEG, PNG or WebP file if the profile is for RGB, like the decoded pixels. Empty if it is
// missing or damaged: wrong metadata does not make a picture unreadable. For a TIFF, use TiffPicture::profile().
// Thread: any.
std::vector<std::byte> colour_profile(ImageFormat format, std::span<const std::byte> file);

// True if these bytes are an ICC profile for RGB of at most 16 MiB.
bool is_rgb_profile(std::span<const std::byte> profile);

// Scales 16 bits to 8, rounded to the nearest, like libpng: 65535 becomes 255.
constexpr std::uint8_t in_8_of_16_bits(std::uint32_t number) {
    return static_cast<std::uint8_t>((number * 255 + 32895) >> 16U);
}

// The warning for a picture with 16 bits per channel whose largest value is `largest`. Cameras and microscopes store
// 10, 12 or 14 bits in 16, and such pictures come out dark. Empty if the picture uses more bits, or is black.
std::string warning_about_16_bits(std::uint16_t largest);
// Logs that warning for the first such picture of the process. Thread: any.
void warn_of_16_bits(std::uint16_t largest);

}  // namespace offramp
