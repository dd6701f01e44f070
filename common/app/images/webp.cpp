#include "common/app/images/whole_formats.hpp"

#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "common/app/images/image_decode.hpp"
#include "common/app/images/image_format.hpp"
#include "common/app/images/unreadable_item.hpp"

namespace offramp {
namespace {

const std::uint8_t* bytes_of(std::span<const std::byte> file) {
    return reinterpret_cast<const std::uint8_t*>(file.data());
}

[[noreturn]] void refuse(std::span<const std::byte> file, VP8StatusCode status) {
    // The container states its length.
    const bool short_of_bytes = file.size() < 8 || file.size() - 8 < little_endian_at(file, 4);
    if (short_of_bytes || status == VP8_STATUS_NOT_ENOUGH_DATA || status == VP8_STATUS_SUSPENDED)
        throw UnreadableItem("truncated WebP: its " + std::to_string(file.size()) + " bytes end before the image does");
    if (status == VP8_STATUS_OUT_OF_MEMORY) throw UnreadableItem("WebP: out of memory while it was decoded");
    if (status == VP8_STATUS_UNSUPPORTED_FEATURE)
        throw UnreadableItem("WebP with a feature that libwebp does not support");
    throw UnreadableItem("damaged WebP");
}

// The destination of a picture's pixels: the rows of a canvas.
struct Canvas {
    WEBP_CSP_MODE channels;
    std::size_t pixel_bytes, row_bytes;
    std::span<std::uint8_t> pixels;
};

// `picture`: the file, or one picture in it.
void decode_still(std::span<const std::byte> picture, std::span<const std::byte> file, const Canvas& to) {
    WebPDecoderConfig config;
    if (WebPInitDecoderConfig(&config) == 0)
        throw UnreadableItem(
            "WebP: the installed libwebp has another version than the one that Offramp was built with");
    config.output.colorspace = to.channels;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = {
        .rgba = to.pixels.data(), .stride = static_cast<int>(to.row_bytes), .size = to.pixels.size()};
    const VP8StatusCode status = WebPDecode(bytes_of(picture), picture.size(), &config);
    WebPFreeDecBuffer(&config.output);
    if (status != VP8_STATUS_OK) refuse(file, status);
}

void decode_first_of_many(std::span<const std::byte> file, ImageSize size, const Canvas& to) {
    struct Close {
        void operator()(WebPDemuxer* demuxer) const noexcept { WebPDemuxDelete(demuxer); }
    };
    const WebPData data{.bytes = bytes_of(file), .size = file.size()};
    const std::unique_ptr<WebPDemuxer, Close> demuxer(WebPDemux(&data));
    WebPIterator first{};
    if (demuxer == nullptr || WebPDemuxGetFrame(demuxer.get(), 1, &first) == 0)
        refuse(file, VP8_STATUS_BITSTREAM_ERROR);
    const auto picture = std::as_bytes(std::span(first.fragment.bytes, first.fragment.size));
    const auto left = static_cast<std::size_t>(first.x_offset), width = static_cast<std::size_t>(first.width);
    const auto top = static_cast<std::size_t>(first.y_offset), height = static_cast<std::size_t>(first.height);
    WebPDemuxReleaseIterator(&first);
    if (width == 0 || height == 0 || left + width > size.width || top + height > size.height)
        refuse(file, VP8_STATUS_BITSTREAM_ERROR);
    std::ranges::fill(to.pixels, std::uint8_t{0});
    const auto part = to.pixels.subspan(top * to.row_bytes + left * to.pixel_bytes,
                                        (height - 1) * to.row_bytes + width * to.pixel_bytes);
    decode_still(picture, file, {to.channels, to.pixel_bytes, to.row_bytes, part});
}

void decode(std::span<const std::byte> file, ImageSize size, WEBP_CSP_MODE channels, std::size_t pixel_bytes,
            std::uint8_t* to) {
    WebPBitstreamFeatures features;
    const VP8StatusCode status = WebPGetFeatures(bytes_of(file), file.size(), &features);
    if (status != VP8_STATUS_OK) refuse(file, status);
    const Canvas canvas{channels, pixel_bytes, size.width * pixel_bytes, {to, size.pixels() * pixel_bytes}};
    if (features.has_animation != 0)
        decode_first_of_many(file, size, canvas);
    else
        decode_still(file, file, canvas);
}

}  // namespace

ImageSize read_webp_size(std::span<const std::byte> file, std::uint64_t most_pixels) {
    WebPBitstreamFeatures features;
    const VP8StatusCode status = WebPGetFeatures(bytes_of(file), file.size(), &features);
    if (status != VP8_STATUS_OK) refuse(file, status);
    const ImageSize size{static_cast<std::uint32_t>(features.width), static_cast<std::uint32_t>(features.height)};
    check_pixels(size, most_pixels);
    return size;
}

// The container is a sequence of chunks: four letters, a length, as many bytes, and one byte of padding if the length
// is odd.
Orientation webp_orientation(std::span<const std::byte> file) {
    for (std::size_t at = 12; at + 8 <= file.size();) {
        const std::size_t length = little_endian_at(file, at + 4);
        if (length > file.size() - at - 8) break;
        if (std::memcmp(file.data() + at, "EXIF", 4) == 0) {
            auto exif = file.subspan(at + 8, length);
            // some writers add JPEG's prefix
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
