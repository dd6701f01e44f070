#include "consumer/processors/pictures/webp_encoder.hpp"

#include <webp/encode.h>

#include <string>

#include "common/base/error.hpp"

namespace offramp {

void WebpEncoder::FreeWebp::operator()(std::uint8_t* bytes) const noexcept { WebPFree(bytes); }

std::span<const std::byte> WebpEncoder::encode(std::span<const std::uint8_t> pixels, ImageSize size) {
    const bool alpha = pixels.size() == size.pixels() * 4;
    expect(size.pixels() > 0 && (alpha || pixels.size() == size.rgb_bytes()),
           "a WebP's pixels have three channels or four");
    webp_.reset();
    const std::string shown = std::to_string(size.width) + " x " + std::to_string(size.height) + " pixels";
    if (size.width > WEBP_MAX_DIMENSION || size.height > WEBP_MAX_DIMENSION)
        throw Error(
            ErrorKind::BadInput,
            "cannot make a WebP file of " + shown + ": a side has at most " + std::to_string(WEBP_MAX_DIMENSION),
            "Give --image-format png");
    const auto width = static_cast<int>(size.width);
    const auto height = static_cast<int>(size.height);
    std::uint8_t* bytes = nullptr;
    const std::size_t count =
        alpha ? WebPEncodeRGBA(pixels.data(), width, height, width * 4, static_cast<float>(quality_), &bytes)
              : WebPEncodeRGB(pixels.data(), width, height, width * 3, static_cast<float>(quality_), &bytes);
    webp_.reset(bytes);
    if (count == 0) throw Error(ErrorKind::BadInput, "cannot make a WebP file of " + shown);
    return std::as_bytes(std::span(bytes, count));
}

}  // namespace offramp
