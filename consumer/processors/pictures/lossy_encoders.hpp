#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/app/images/geometry.hpp"

namespace offramp {

// Encodes images as JPEG files. The bytes depend on pixels, size and quality alone (and on libjpeg-turbo's version).
// Owns the encoder and the buffer it encodes into. Thread: one. Errors: Error when libjpeg-turbo refuses the image.
class JpegEncoder {
  public:
    // `quality`: 1 to 100.
    explicit JpegEncoder(int quality);

    // One image, row by row, of three channels (red, green, blue) or one (gray), with the ICC profile that its colours
    // have, if any. The result is valid until the next call.
    std::span<const std::byte> encode(std::span<const std::uint8_t> pixels, ImageSize size,
                                      std::span<const std::byte> profile = {});

  private:
    struct CloseEncoder {
        void operator()(void* handle) const noexcept;
    };
    struct FreeJpeg {
        void operator()(unsigned char* bytes) const noexcept;
    };

    int quality_;
    std::unique_ptr<void, CloseEncoder> encoder_;
    std::unique_ptr<unsigned char, FreeJpeg> jpeg_;
    std::vector<std::byte> with_profile_;
};

// Encodes images as WebP files, lossy. The bytes depend on pixels, size and quality alone (and on libwebp's version).
// Owns the buffer that it encodes into. Thread: one. Errors: Error when libwebp refuses the image, as one with a side
// of more than 16383 pixels.
class WebpEncoder {
  public:
    // `quality`: 1 to 100.
    explicit WebpEncoder(int quality) : quality_(quality) {}

    // One image, row by row, of three channels (red, green, blue) or four (alpha last, not multiplied in). The result
    // is valid until the next call.
    std::span<const std::byte> encode(std::span<const std::uint8_t> pixels, ImageSize size);

  private:
    struct FreeWebp {
        void operator()(std::uint8_t* bytes) const noexcept;
    };

    int quality_;
    std::unique_ptr<std::uint8_t, FreeWebp> webp_;
};

}  // namespace offramp
