#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

// Sizes and parts of pictures. Plain values.
namespace offramp {

struct ImageSize {
    std::uint32_t width = 0;
    std::uint32_t height = 0;

    bool operator==(const ImageSize&) const = default;
    std::uint64_t pixels() const { return std::uint64_t{width} * height; }
    std::size_t rgb_bytes() const { return static_cast<std::size_t>(pixels()) * 3; }
};

// A larger image is refused before a byte of it is decoded: a few kilobytes can claim gigabytes.
inline constexpr std::uint64_t kMaxImagePixels = 100'000'000;

// Which pixels of a picture make one of a resized one: a triangle, or Keys' cubic with a = -0.5. Both widen when a
// picture shrinks (antialias).
enum class Interpolation : std::uint8_t { Bilinear, Bicubic };

// Pixels of a picture.
struct PictureRect {
    std::uint32_t left = 0;
    std::uint32_t top = 0;
    ImageSize size;

    bool operator==(const PictureRect&) const = default;
};

// Puts a plane of bytes of a part of a picture in its place in the whole; around it zeros.
inline void surround(std::span<const std::uint8_t> plane, const PictureRect& part, ImageSize whole,
                     std::vector<std::uint8_t>& to) {
    to.assign(whole.pixels(), 0);
    for (std::uint32_t y = 0; y < part.size.height; ++y)
        std::ranges::copy(
            plane.subspan(std::size_t{y} * part.size.width, part.size.width),
            to.begin() + static_cast<std::ptrdiff_t>(std::uint64_t{part.top + y} * whole.width + part.left));
}

// A part of a picture that was brought to another size: as many pixels as requested, from `left`, `top` on. Sides
// are long where a picture of one line is enlarged.
struct ResizedPart {
    std::uint64_t width = 0;  // of the whole picture, in its new size
    std::uint64_t height = 0;
    std::uint64_t left = 0;
    std::uint64_t top = 0;

    bool operator==(const ResizedPart&) const = default;
};

// The part of an upright picture that a model sees: all of it, squeezed into `size`; or, with a `shorter_side`, its
// middle. Its shorter side is then brought to that length, its proportions kept, and `size` is cut out, to the pixel
// where torchvision's Resize and CenterCrop do.
struct PictureFrame {
    PictureFrame(ImageSize all) : size(all) {}  // not explicit: a size is the frame of all of a picture
    PictureFrame(ImageSize part, std::uint32_t shorter, Interpolation way = Interpolation::Bilinear)
        : size(part), shorter_side(shorter), interpolation(way) {}

    ImageSize size;
    std::uint32_t shorter_side = 0;  // 0: all of the picture; else not less than size's sides
    Interpolation interpolation = Interpolation::Bilinear;

    // The place of `size` in the resized picture, which has pixels.
    ResizedPart part_of(ImageSize picture) const;
    // The picture's own pixels that lie in the frame, to the nearest; at least one each way.
    PictureRect visible_rect(ImageSize picture) const;
};

}  // namespace offramp
