#include "common/images/jpeg.hpp"

#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "common/base/error.hpp"
#include "common/images/image_decode.hpp"
#include "common/images/unreadable_item.hpp"

namespace offramp {
namespace {

const unsigned char* bytes_of(std::span<const std::byte> file) {
    return reinterpret_cast<const unsigned char*>(file.data());
}

// Walks the segments up to the first scan. Where the file ends before it, that is its end or beyond.
std::size_t first_scan(std::span<const std::byte> file) {
    const unsigned char* const bytes = bytes_of(file);
    std::size_t at = 2;
    while (at + 4 <= file.size() && bytes[at] == 0xff && bytes[at + 1] != 0xda) {
        if (bytes[at + 1] == 0xff) {  // a fill byte
            ++at;
            continue;
        }
        at += 2 + ((std::size_t{bytes[at + 2]} << 8) | bytes[at + 3]);
    }
    return at;
}

// Looks for the end-of-image marker behind the first scan, so that one in an embedded thumbnail does not count. Within
// a scan FF is always stuffed: FF D9 can be nothing else.
bool has_end_of_image(std::span<const std::byte> file) {
    const unsigned char* const bytes = bytes_of(file);
    const std::size_t at = first_scan(file);
    if (at >= file.size()) return false;
    const std::array<unsigned char, 2> end{0xff, 0xd9};
    return std::search(bytes + at, bytes + file.size(), end.begin(), end.end()) != bytes + file.size();
}

[[noreturn]] void refuse(std::span<const std::byte> file, const std::string& message) {
    if (!has_end_of_image(file))
        throw UnreadableItem("truncated JPEG: its " + std::to_string(file.size()) + " bytes end before the image does");
    throw UnreadableItem("damaged JPEG: " + message);
}

}  // namespace

void JpegDecoder::Close::operator()(void* handle) const noexcept { tjDestroy(handle); }

JpegDecoder::JpegDecoder() : handle_(tjInitDecompress()) {
    if (!handle_) throw Error(ErrorKind::System, std::string("starting the JPEG decoder: ") + tjGetErrorStr2(nullptr));
}

ImageSize JpegDecoder::begin(std::span<const std::byte> file, ImageSize target) {
    int width = 0, height = 0, subsampling = -1, colors = -1;
    const int result = tjDecompressHeader3(handle_.get(), bytes_of(file), static_cast<unsigned long>(file.size()),
                                           &width, &height, &subsampling, &colors);
    // An unusual chroma subsampling has no name in this interface, but is decoded all the same.
    const bool only_unnamed = width > 0 && height > 0 && colors >= 0 && subsampling < 0;
    if (result != 0 && tjGetErrorCode(handle_.get()) == TJERR_FATAL && !only_unnamed)
        refuse(file, tjGetErrorStr2(handle_.get()));
    if (colors == TJCS_CMYK || colors == TJCS_YCCK)
        throw UnreadableItem(std::string("JPEG in ") + (colors == TJCS_CMYK ? "CMYK" : "YCCK") +
                             " colours; only RGB and gray are read");
    const ImageSize full{static_cast<std::uint32_t>(width), static_cast<std::uint32_t>(height)};
    check_pixels(full);
    file_ = file;
    full_ = scaled_ = full;
    for (const int divisor : {2, 4, 8}) {
        const tjscalingfactor factor{1, divisor};
        const ImageSize smaller{static_cast<std::uint32_t>(TJSCALED(width, factor)),
                                static_cast<std::uint32_t>(TJSCALED(height, factor))};
        if (smaller.width < target.width || smaller.height < target.height) break;
        scaled_ = smaller;
    }
    return scaled_;
}

void JpegDecoder::finish(std::uint8_t* rgb) {
    const int result = tjDecompress2(handle_.get(), bytes_of(file_), static_cast<unsigned long>(file_.size()), rgb,
                                     static_cast<int>(scaled_.width), 0, static_cast<int>(scaled_.height), TJPF_RGB,
                                     TJFLAG_LIMITSCANS);
    if (result == 0) return;
    const std::string message = tjGetErrorStr2(handle_.get());
    if (tjGetErrorCode(handle_.get()) == TJERR_WARNING && is_harmless_jpeg_warning(message) && has_end_of_image(file_))
        return;
    refuse(file_, message);
}

bool is_harmless_jpeg_warning(std::string_view warning) {
    constexpr std::array<std::string_view, 5> kHarmless{
        "extraneous bytes before marker", "Unknown Adobe color transform code", "unknown JFIF revision number",
        "Inconsistent progression sequence", "Invalid SOS parameters for sequential JPEG"};
    return std::any_of(kHarmless.begin(), kHarmless.end(),
                       [&](std::string_view known) { return warning.find(known) != std::string_view::npos; });
}

bool reaches_first_scan(std::span<const std::byte> front) {
    const std::size_t at = first_scan(front);
    return at + 4 <= front.size() &&
           at + 4 + ((std::size_t{bytes_of(front)[at + 2]} << 8) | bytes_of(front)[at + 3]) <= front.size();
}

}  // namespace offramp
