#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "common/images/geometry.hpp"

namespace offramp {

// Decodes JPEG files to 8-bit RGB with libjpeg-turbo: first begin(), then finish() into memory of the size
// that begin() gave. Owns the decoder's state. Borrows the file's bytes from begin() to finish(). Thread: one
// at a time. Errors: UnreadableItem: CMYK or YCCK, truncated, damaged, more than kMaxImagePixels.
class JpegDecoder {
  public:
    JpegDecoder();

    // Reads the header. When the target is at most half of the image in both directions, the image is decoded
    // at a half, a quarter or an eighth (a scaled inverse DCT, several times cheaper), never below the
    // target.
    ImageSize begin(std::span<const std::byte> file, ImageSize target);
    // The image's own size, since begin().
    ImageSize full_size() const { return full_; }
    void finish(std::uint8_t* rgb);

  private:
    struct Close {
        void operator()(void* handle) const noexcept;
    };
    std::unique_ptr<void, Close> handle_;
    std::span<const std::byte> file_;
    ImageSize full_, scaled_;
};

// libjpeg's warnings that leave the picture whole. Every other one means that part of it is invented.
bool is_harmless_jpeg_warning(std::string_view warning);

// Whether the front of a JPEG file reaches its first scan, and with it all that stands before the pixels.
bool reaches_first_scan(std::span<const std::byte> front);

}  // namespace offramp
