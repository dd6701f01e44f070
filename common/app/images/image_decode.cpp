#include "common/app/images/image_decode.hpp"

#include <algorithm>
#include <limits>

#include "common/app/images/image_format.hpp"
#include "common/app/images/item_keys.hpp"
#include "common/app/images/png.hpp"
#include "common/app/images/unreadable_item.hpp"
#include "common/app/images/whole_formats.hpp"
#include "common/base/error.hpp"
#include "common/base/files.hpp"

namespace offramp {

std::uint64_t bytes_at(const PicturePlace& place, std::uint64_t file_bytes) {
    const std::uint64_t left = file_bytes - std::min(place.offset, file_bytes);
    const std::uint64_t bytes = place.bytes.value_or(left);
    if (bytes > left)
        throw UnreadableItem("truncated: it needs " + std::to_string(bytes) + " bytes from byte " +
                             std::to_string(place.offset) + " on, but " + printable(place.path) + " ends at " +
                             std::to_string(file_bytes));
    if (bytes == 0) throw UnreadableItem("an empty file (0 bytes)");
    return bytes;
}

void refuse_format(ImageFormat format) {
    if (format == ImageFormat::Unknown)
        throw UnreadableItem("not an image: its content is not JPEG, PNG, TIFF, WebP, BMP or GIF");
    throw UnreadableItem("a " + std::string(to_string(format)) +
                         " image; only JPEG, PNG, TIFF, WebP, BMP and GIF are read");
}

namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 30;
constexpr std::size_t kKeptBytes = std::size_t{64} << 20;  // limit of scratch memory that is kept between images

// Limits of files for a GPU's decoder: its memory is that of the largest pictures, and small ones cost little here.
constexpr std::size_t kMostBytesForGpu = std::size_t{16} << 20;
constexpr WholeJpegCheck::Sizes kSizesForGpu{.shortest_side = 64, .longest_side = 16'384, .pixels = 64'000'000};

std::uint8_t* room_for(ImageSize size, std::vector<std::uint8_t>& pixels) {
    if (pixels.size() < size.rgb_bytes()) pixels.resize(size.rgb_bytes());
    return pixels.data();
}

// The minimum size of a scaled JPEG decode. A scaled decode averages squares, so a cubic filter does the last halving
// itself.
ImageSize least_size(const PictureFrame& frame) {
    const std::uint32_t times = frame.interpolation == Interpolation::Bicubic ? 2 : 1;
    const std::uint32_t shorter = frame.shorter_side * times;
    return shorter != 0 ? ImageSize{shorter, shorter} : ImageSize{frame.size.width * times, frame.size.height * times};
}

bool readable(ImageFormat format) {
    using enum ImageFormat;
    return format == Jpeg || format == Png || format == Tiff || format == Webp || format == Bmp || format == Gif;
}

}  // namespace

void check_pixels(ImageSize size, std::uint64_t most) {
    if (size.pixels() > most)
        throw UnreadableItem("an image of " + std::to_string(size.width) + " x " + std::to_string(size.height) +
                             " pixels; at most " + std::to_string(most / 1'000'000) + " megapixels are read" +
                             (most == kMaxImagePixels ? " (cut larger ones into tiles with --tile)" : ""));
}

void check_held_whole(ImageSize size, const std::string& what) {
    if (size.pixels() > kMaxImagePixels)
        throw UnreadableItem(what + " of " + std::to_string(size.width) + " x " + std::to_string(size.height) +
                             " pixels, which cannot be decoded row by row; the limit for these is " +
                             std::to_string(kMaxImagePixels / 1'000'000) +
                             " megapixels. A PNG without interlacing, a baseline JPEG or a TIFF may be larger");
}

void ImageDecoder::decode_file(const PicturePlace& place, const PictureFrame& frame, std::span<std::byte> rgb) {
    read(place);
    decode(file_, frame, rgb);
}

void ImageDecoder::read_for_gpu(const PicturePlace& place, const PictureFrame& frame, std::span<std::byte> rgb,
                                EncodedPicture& encoded) {
    read(place);
    encoded.file.clear();
    if (!is_whole_) is_whole_ = std::make_unique<WholeJpegCheck>(kSizesForGpu);
    const auto picture = file_.size() <= kMostBytesForGpu ? (*is_whole_)(file_) : std::nullopt;
    if (!picture) return decode(file_, frame, rgb);
    encoded.stored = picture->size;
    encoded.orientation = jpeg_orientation(file_);
    encoded.frame = frame;
    std::swap(encoded.file, file_);
    encoded.file.resize(picture->bytes_to_end);
}

ImageSize ImageDecoder::decode_file_in_full(const PicturePlace& place, std::vector<std::uint8_t>& rgb,
                                            BesideColours* beside) {
    constexpr std::uint32_t kAny = std::numeric_limits<std::uint32_t>::max();
    read(place);
    const TrimAtEnd trim{*this};
    const Stored stored = begin(file_, {kAny, kAny});
    const ImageSize size = upright_size(stored.size, stored.orientation);
    rgb.resize(size.rgb_bytes());
    if (stored.orientation == Orientation::Upright) {
        finish(file_, stored, rgb.data());
    } else {
        finish(file_, stored, room_for(size, pixels_));
        bring_upright(pixels_.data(), stored.size, stored.orientation, rgb.data());
    }
    if (beside != nullptr) *beside = beside_colours(stored);
    return size;
}

// Decodes file_ again if it has alpha.
BesideColours ImageDecoder::beside_colours(const Stored& stored) const {
    BesideColours beside{.alpha = {}, .profile = colour_profile(stored.format, file_)};
    if (stored.tiff) beside.profile = stored.tiff->profile();
    std::vector<std::uint8_t> alpha;
    if (stored.format == ImageFormat::Png) alpha = png_alpha(file_, stored.size);
    if (stored.format == ImageFormat::Webp) alpha = webp_alpha(file_, stored.size);
    if (stored.format == ImageFormat::Bmp) alpha = bmp_alpha(file_, stored.size);
    if (stored.format == ImageFormat::Gif) alpha = gif_alpha(file_, stored.size);
    if (stored.tiff && stored.tiff->has_alpha()) {
        std::vector<std::uint8_t> gray(stored.size.rgb_bytes());
        TiffPicture(picture_bytes(file_), kMaxImagePixels, TiffPart::Alpha)
            .read({.left = 0, .top = 0, .size = stored.size}, gray.data());
        alpha.resize(stored.size.pixels());
        for (std::size_t i = 0; i < alpha.size(); ++i) alpha[i] = gray[3 * i];
    }
    beside.alpha.resize(alpha.size());
    if (!alpha.empty()) bring_plane_upright(alpha.data(), stored.size, stored.orientation, beside.alpha.data());
    return beside;
}

ImageSize ImageDecoder::size_of_file(const PicturePlace& place, TiffPart tiff) {
    constexpr std::uint32_t kAny = std::numeric_limits<std::uint32_t>::max();
    constexpr std::uint64_t kFront = std::uint64_t{256} << 10;
    read(place, kFront);
    const TrimAtEnd trim{*this};
    // A WebP stores its orientation after the pixels.
    const ImageFormat format = image_format(file_);
    if (format == ImageFormat::Tiff) {  // its header may be anywhere
        const TiffPicture picture(picture_bytes(place), kMaxImagePixels, tiff);
        return upright_size(picture.size(), picture.orientation());
    }
    if (format == ImageFormat::Png)
        return upright_size(read_png_size(file_), or_unreadable([&] { return png_orientation(picture_bytes(place)); }));
    const bool enough = format == ImageFormat::Jpeg && reaches_first_scan(file_);
    if (!enough && file_.size() == kFront) read(place);
    const Stored stored = begin(file_, {kAny, kAny});
    return upright_size(stored.size, stored.orientation);
}

// Reads the file, or its first `most` bytes, if its beginning shows a supported format.
void ImageDecoder::read(const PicturePlace& place, std::uint64_t most) {
    if (file_.capacity() > kKeptBytes) file_ = {};
    const RegularFile file = or_unreadable([&] { return RegularFile(place.path); });
    const auto read_at = [&](std::uint64_t offset, std::span<std::byte> to) {
        return or_unreadable([&] { return file.read_at(offset, to); });
    };
    const std::uint64_t all_bytes = bytes_at(place, file.size());
    const std::uint64_t bytes = std::min(all_bytes, most);
    // The front alone decides whether the rest is worth reading.
    file_.resize(std::min<std::uint64_t>(bytes, kMagicBytes));
    std::size_t got = read_at(place.offset, file_);
    file_.resize(got);
    const ImageFormat format = image_format(file_);
    if (!readable(format)) refuse_format(format);
    if (all_bytes > kMaxFileBytes)
        throw UnreadableItem("a file of " + std::to_string(all_bytes) + " bytes; at most 1 GiB is read");
    if (bytes > got) {
        file_.resize(bytes);
        got += read_at(place.offset + got, std::span(file_).subspan(got));
        file_.resize(got);  // shorter when the file shrank meanwhile
    }
}

// `target`: the minimum size of the upright picture.
ImageDecoder::Stored ImageDecoder::begin(std::span<const std::byte> file, ImageSize target) {
    Stored stored{.format = image_format(file)};
    if (!readable(stored.format)) refuse_format(stored.format);
    if (stored.format == ImageFormat::Jpeg) {
        stored.orientation = jpeg_orientation(file);
        stored.jpeg = std::make_shared<JpegPicture>(file);
        stored.full = stored.jpeg->size();
        check_pixels(stored.full);
        stored.size = stored.jpeg->scale_towards(upright_size(target, stored.orientation));
    } else if (stored.format == ImageFormat::Webp) {
        stored.size = read_webp_size(file);
        stored.orientation = webp_orientation(file);
    } else if (stored.format == ImageFormat::Tiff) {
        stored.tiff = std::make_shared<TiffPicture>(picture_bytes(file));
        stored.size = stored.tiff->size();
        stored.orientation = stored.tiff->orientation();
    } else if (stored.format == ImageFormat::Bmp) {
        stored.size = read_bmp_size(file);
    } else if (stored.format == ImageFormat::Gif) {
        stored.size = read_gif_size(file);
    } else {
        stored.size = read_png_size(file);
        stored.orientation = png_orientation(picture_bytes(file));
    }
    if (stored.jpeg == nullptr) stored.full = stored.size;
    return stored;
}

void ImageDecoder::finish(std::span<const std::byte> file, const Stored& stored, std::uint8_t* rgb) {
    if (stored.format == ImageFormat::Jpeg)
        stored.jpeg->read(stored.size.height, rgb);
    else if (stored.format == ImageFormat::Webp)
        decode_webp(file, stored.size, rgb);
    else if (stored.format == ImageFormat::Tiff)
        stored.tiff->read({.left = 0, .top = 0, .size = stored.size}, rgb);
    else if (stored.format == ImageFormat::Bmp)
        decode_bmp(file, stored.size, rgb);
    else if (stored.format == ImageFormat::Gif)
        decode_gif(file, stored.size, rgb);
    else
        decode_png(file, stored.size, rgb);
}

// Turns the picture upright before resizing: rows are resized before columns, and the order changes the bits.
void ImageDecoder::decode(std::span<const std::byte> file, const PictureFrame& frame, std::span<std::byte> rgb) {
    const TrimAtEnd trim{*this};
    const ImageSize size = frame.size;
    expect(size.pixels() > 0 && rgb.size() == size.rgb_bytes(), "the row holds exactly the image");
    auto* const to = reinterpret_cast<std::uint8_t*>(rgb.data());
    const Stored stored = begin(file, least_size(frame));
    const ImageSize upright = upright_size(stored.size, stored.orientation);
    const bool as_stored = stored.orientation == Orientation::Upright;
    const ImageSize full = upright_size(stored.full, stored.orientation);
    expect(full.pixels() > 0, "a file without pixels is refused");
    const ResizedPart part = frame.part_of(full);
    const bool in_size = upright == size && part == ResizedPart{.width = size.width, .height = size.height};
    std::uint8_t* pixels = in_size && as_stored ? to : room_for(stored.size, pixels_);
    finish(file, stored, pixels);
    if (!as_stored) {
        std::uint8_t* const turned = in_size ? to : room_for(upright, upright_);
        bring_upright(pixels, stored.size, stored.orientation, turned);
        pixels = turned;
    }
    if (!in_size) resizer_.resize_part(pixels, upright, part, to, size, frame.interpolation);
}

ImageDecoder::TrimAtEnd::~TrimAtEnd() {
    if (decoder.pixels_.capacity() > kKeptBytes) {
        decoder.pixels_ = {};
        decoder.resizer_.trim();
    }
    if (decoder.upright_.capacity() > kKeptBytes) decoder.upright_ = {};
}

}  // namespace offramp
