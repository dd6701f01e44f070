#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace offramp {

// The format of a file by its first bytes. Heif, JpegXl and Jpeg2000 are only known by name; the others are read.
enum class ImageFormat { Unknown, Jpeg, Png, Gif, Bmp, Tiff, Webp, Heif, JpegXl, Jpeg2000 };

inline constexpr std::size_t kMagicBytes = 16;  // enough of a file to detect its format

ImageFormat image_format(std::span<const std::byte> front);
std::string_view to_string(ImageFormat format);

}  // namespace offramp
