#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/app/images/geometry.hpp"

namespace offramp {

// Encodes images as JPEG files. The bytes depend only on pixels, size, quality and libjpeg-turbo's version. Owns the
// encoder and its output buffer. Thread: one. Errors: Error when libjpeg-turbo refuses the image.
class JpegEncoder {
  public:
    // `quality`: 1 to 100.
    explicit JpegEncoder(int quality);

    // Encodes one image, row by row, with three channels (red, green, blue) or one (gray). `profile`: the ICC profile
    // of its colours, if any. The result is valid until the next call.
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

// Encodes images as lossy WebP files. The bytes depend only on pixels, size, quality and libwebp's version. Owns its
// output buffer. Thread: one. Errors: Error when libwebp refuses the image, for example because a side exceeds 16383
// pixels.
class WebpEncoder {
  public:
    // `quality`: 1 to 100.
    explicit WebpEncoder(int quality) : quality_(quality) {}

    // Encodes one image, row by row, with three channels (red, green, blue) or four (alpha last, not premultiplied).
    // The result is valid until the next call.
    std::span<const std::byte> encode(std::span<const std::uint8_t> pixels, ImageSize size);

  private:
    struct FreeWebp {
        void operator()(std::uint8_t* bytes) const noexcept;
    };

    int quality_;
    std::unique_ptr<std::uint8_t, FreeWebp> webp_;
};

}  // namespace offramp
