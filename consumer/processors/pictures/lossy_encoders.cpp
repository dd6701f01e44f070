#include "consumer/processors/pictures/lossy_encoders.hpp"

#include <turbojpeg.h>
#include <webp/encode.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "common/base/error.hpp"

namespace offramp {

void JpegEncoder::CloseEncoder::operator()(void* handle) const noexcept { tjDestroy(handle); }

void JpegEncoder::FreeJpeg::operator()(unsigned char* bytes) const noexcept { tjFree(bytes); }

JpegEncoder::JpegEncoder(int quality) : quality_(quality), encoder_(tjInitCompress()) {
    if (!encoder_) throw Error(ErrorKind::System, std::string("starting the JPEG encoder: ") + tjGetErrorStr2(nullptr));
}

namespace {

// Segments of a profile, numbered from 1, after the first segment (JFIF's), as ICC.1 requires.
void put_profile(std::span<const std::byte> jpeg, std::span<const std::byte> profile, std::vector<std::byte>& to) {
    constexpr std::string_view kName("ICC_PROFILE\0", 12);
    constexpr std::size_t kMostOfPart = 65'535 - 2 - kName.size() - 2;
    const std::size_t parts = (profile.size() + kMostOfPart - 1) / kMostOfPart;
    const std::size_t front = 4 + (std::to_integer<std::size_t>(jpeg[4]) << 8U) + std::to_integer<std::size_t>(jpeg[5]);
    to.assign(jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(front));
    for (std::size_t part = 0; part < parts; ++part) {
        const auto data =
            profile.subspan(part * kMostOfPart, std::min(kMostOfPart, profile.size() - part * kMostOfPart));
        const std::size_t length = 2 + kName.size() + 2 + data.size();
        for (const std::size_t byte : {std::size_t{0xff}, std::size_t{0xe2}, length >> 8U, length & 0xffU})
            to.push_back(static_cast<std::byte>(byte));
        const auto name = std::as_bytes(std::span(kName));
        to.insert(to.end(), name.begin(), name.end());
        to.push_back(static_cast<std::byte>(part + 1));
        to.push_back(static_cast<std::byte>(parts));
        to.insert(to.end(), data.begin(), data.end());
    }
    to.insert(to.end(), jpeg.begin() + static_cast<std::ptrdiff_t>(front), jpeg.end());
}

}  // namespace

std::span<const std::byte> JpegEncoder::encode(std::span<const std::uint8_t> pixels, ImageSize size,
                                               std::span<const std::byte> profile) {
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
    const std::span<const std::byte> jpeg = std::as_bytes(std::span(bytes, bytes_count));
    constexpr std::size_t kMostOfProfile = std::size_t{255} * 65'519;  // in the most segments that ICC.1 allows
    if (profile.empty() || profile.size() > kMostOfProfile) return jpeg;
    put_profile(jpeg, profile, with_profile_);
    return with_profile_;
}

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
