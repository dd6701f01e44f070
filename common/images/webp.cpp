#include "common/images/webp.hpp"

#include <webp/decode.h>

#include <cstring>
#include <string>

#include "common/images/image_decode.hpp"
#include "common/images/unreadable_item.hpp"

namespace offramp {
namespace {

const std::uint8_t* bytes_of(std::span<const std::byte> file) {
    return reinterpret_cast<const std::uint8_t*>(file.data());
}

std::uint32_t number_at(std::span<const std::byte> file, std::size_t at) {
    std::uint32_t number = 0;
    for (std::size_t i = 4; i-- > 0;) number = (number << 8U) | std::to_integer<std::uint32_t>(file[at + i]);
    return number;
}

[[noreturn]] void refuse(std::span<const std::byte> file, VP8StatusCode status) {
    // The container says how long it is.
    const bool short_of_bytes = file.size() < 8 || file.size() - 8 < number_at(file, 4);
    if (short_of_bytes || status == VP8_STATUS_NOT_ENOUGH_DATA || status == VP8_STATUS_SUSPENDED)
        throw UnreadableItem("truncated WebP: its " + std::to_string(file.size()) + " bytes end before the image does");
    if (status == VP8_STATUS_OUT_OF_MEMORY) throw UnreadableItem("WebP: no memory to decode it in");
    if (status == VP8_STATUS_UNSUPPORTED_FEATURE)
        throw UnreadableItem("WebP with a feature that libwebp does not read");
    throw UnreadableItem("damaged WebP");
}

void decode(std::span<const std::byte> file, ImageSize size, WEBP_CSP_MODE channels, std::uint32_t pixel_bytes,
            std::uint8_t* to) {
    WebPDecoderConfig config;
    if (WebPInitDecoderConfig(&config) == 0)
        throw UnreadableItem("WebP: libwebp is another version than it was built for");
    const std::uint32_t row_bytes = size.width * pixel_bytes;
    config.output.colorspace = channels;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = {
        .rgba = to, .stride = static_cast<int>(row_bytes), .size = std::size_t{row_bytes} * size.height};
    const VP8StatusCode status = WebPDecode(bytes_of(file), file.size(), &config);
    WebPFreeDecBuffer(&config.output);
    if (status != VP8_STATUS_OK) refuse(file, status);
}

}  // namespace

ImageSize read_webp_size(std::span<const std::byte> file, std::uint64_t most_pixels) {
    WebPBitstreamFeatures features;
    const VP8StatusCode status = WebPGetFeatures(bytes_of(file), file.size(), &features);
    if (status != VP8_STATUS_OK) refuse(file, status);
    if (features.has_animation != 0) throw UnreadableItem("an animated WebP; only still ones are read");
    const ImageSize size{static_cast<std::uint32_t>(features.width), static_cast<std::uint32_t>(features.height)};
    check_pixels(size, most_pixels);
    return size;
}

// The container is a row of chunks: four letters, their length, as many bytes and one more where that is odd.
Orientation webp_orientation(std::span<const std::byte> file) {
    for (std::size_t at = 12; at + 8 <= file.size();) {
        const std::size_t length = number_at(file, at + 4);
        if (length > file.size() - at - 8) break;
        if (std::memcmp(file.data() + at, "EXIF", 4) == 0) {
            auto exif = file.subspan(at + 8, length);
            // some write it as in JPEG
            if (length >= 6 && std::memcmp(exif.data(), "Exif\0\0", 6) == 0) exif = exif.subspan(6);
            return exif_orientation(exif);
        }
        at += 8 + length + length % 2;
    }
    return Orientation::Upright;
}

void decode_webp(std::span<const std::byte> file, ImageSize size, std::uint8_t* rgb) {
    decode(file, size, MODE_RGB, 3, rgb);
}

std::vector<std::uint8_t> webp_alpha(std::span<const std::byte> file, ImageSize size) {
    WebPBitstreamFeatures features;
    if (WebPGetFeatures(bytes_of(file), file.size(), &features) != VP8_STATUS_OK || features.has_alpha == 0) return {};
    std::vector<std::uint8_t> rgba(size.pixels() * 4), alpha(size.pixels());
    decode(file, size, MODE_RGBA, 4, rgba.data());
    for (std::size_t i = 0; i < alpha.size(); ++i) alpha[i] = rgba[4 * i + 3];
    return alpha;
}

}  // namespace offramp
