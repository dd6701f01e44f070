#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/app/images/image_format.hpp"

namespace offramp {

// The ICC profile that a JPEG, PNG or WebP file holds, where it is one of RGB, as the pixels that are decoded are;
// empty where there is none, and where it is damaged: wrong metadata does not make a picture unreadable. A TIFF's is
// TiffPicture::profile(). Thread: any.
std::vector<std::byte> colour_profile(ImageFormat format, std::span<const std::byte> file);

// Whether these bytes are an ICC profile of RGB of at most 16 MiB.
bool is_rgb_profile(std::span<const std::byte> profile);

}  // namespace offramp
