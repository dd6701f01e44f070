#include "consumer/processors/pictures/jpeg_encoder.hpp"

#include <turbojpeg.h>

#include <string>

#include "common/base/error.hpp"

namespace offramp {

void JpegEncoder::CloseEncoder::operator()(void* handle) const noexcept { tjDestroy(handle); }

void JpegEncoder::FreeJpeg::operator()(unsigned char* bytes) const noexcept { tjFree(bytes); }

JpegEncoder::JpegEncoder(int quality) : quality_(quality), encoder_(tjInitCompress()) {
    if (!encoder_) throw Error(ErrorKind::System, std::string("starting the JPEG encoder: ") + tjGetErrorStr2(nullptr));
}

std::span<const std::byte> JpegEncoder::encode(std::span<const std::uint8_t> pixels, ImageSize size) {
    const bool gray = pixels.size() == size.pixels();
    expect(size.pixels() > 0 && (gray || pixels.size() == size.rgb_bytes()),
           "a JPEG's pixels have one channel or three");
    jpeg_.reset();
    unsigned char* bytes = nullptr;
    unsigned long bytes_count = 0;
    const int result =
        tjCompress2(encoder_.get(), pixels.data(), static_cast<int>(size.width), 0, static_cast<int>(size.height),
                    gray ? TJPF_GRAY : TJPF_RGB, &bytes, &bytes_count, gray ? TJSAMP_GRAY : TJSAMP_420, quality_, 0);
    jpeg_.reset(bytes);
    if (result != 0)
        throw Error(ErrorKind::BadInput, "cannot make a JPEG file of " + std::to_string(size.width) + " x " +
                                             std::to_string(size.height) +
                                             " pixels: " + tjGetErrorStr2(encoder_.get()));
    return std::as_bytes(std::span(bytes, bytes_count));
}

}  // namespace offramp
