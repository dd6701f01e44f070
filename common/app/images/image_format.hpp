#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace offramp {

// The format of a file by its first bytes. Heif, JpegXl and Jpeg2000 are only known by name; the others are read.
enum class ImageFormat { Unknown, Jpeg, Png, Gif, Bmp, Tiff, Webp, Heif, JpegXl, Jpeg2000 };

inline constexpr std::size_t kMagicBytes = 16;  // enough of a file to detect its format

ImageFormat image_format(std::span<const std::byte> front);
std::string_view to_string(ImageFormat format);

// The ICC profile that a JPEG, PNG or WebP file holds, where it is one of RGB, as the pixels that are decoded are;
// empty where there is none, and where it is damaged: wrong metadata does not make a picture unreadable. A TIFF's is
// TiffPicture::profile(). Thread: any.
std::vector<std::byte> colour_profile(ImageFormat format, std::span<const std::byte> file);

// Whether these bytes are an ICC profile of RGB of at most 16 MiB.
bool is_rgb_profile(std::span<const std::byte> profile);

// 16 bits in 8, to the nearest, as libpng scales: 65535 becomes 255.
constexpr std::uint8_t in_8_of_16_bits(std::uint32_t number) {
    return static_cast<std::uint8_t>((number * 255 + 32895) >> 16U);
}

// The warning for a picture of 16 bits a channel whose largest number is `largest`: cameras and microscopes write 10,
// 12 or 14 bits into 16, which come out dark. Empty where it uses more, or is black.
std::string warning_about_16_bits(std::uint16_t largest);
// Logs it, for the first such picture of the process. Thread: any.
void warn_of_16_bits(std::uint16_t largest);

}  // namespace offramp
