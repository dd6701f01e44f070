#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/app/images/image_format.hpp"
#include "common/app/images/jpeg.hpp"
#include "common/app/images/orientation.hpp"
#include "common/app/images/picture_bytes.hpp"
#include "common/app/images/resize.hpp"
#include "common/app/images/tiff.hpp"

namespace offramp {

// Properties of a picture's file beside its colours.
struct BesideColours {
    std::vector<std::uint8_t> alpha;  // a byte a pixel, upright; empty: all of it is seen
    std::vector<std::byte> profile;   // ICC, of RGB; empty: none
};

// Turns an image file into 8-bit RGB of one size, upright: all of the picture, or its middle. Its content decides the
// format, not its name. Owns scratch memory that is kept from image to image, and nothing else is. Thread: one at a
// time. Blocks: while it reads. Errors: UnreadableItem with the reason in one line.
class ImageDecoder {
  public:
    // `rgb` has frame.size.rgb_bytes().
    void decode_file(const PicturePlace& place, const PictureFrame& frame, std::span<std::byte> rgb);
    void decode(std::span<const std::byte> file, const PictureFrame& frame, std::span<std::byte> rgb);
    // The image in its own size, upright, which is returned. `rgb` becomes as large as that needs.
    ImageSize decode_file_in_full(const PicturePlace& place, std::vector<std::uint8_t>& rgb,
                                  BesideColours* beside = nullptr);

    // Only that size, from the bytes before the pixels: they are not decoded, and mostly not read.
    ImageSize size_of_file(const PicturePlace& place);

  private:
    // Gives back what an unusually large image took, whether it was decoded or refused.
    struct TrimAtEnd {
        ImageDecoder& decoder;
        ~TrimAtEnd();
    };

    // An image as stored in its file, or as it is decoded at a scale.
    struct Stored {
        ImageFormat format = ImageFormat::Unknown;
        Orientation orientation = Orientation::Upright;
        ImageSize size;
        ImageSize full;                     // in its file
        std::shared_ptr<JpegPicture> jpeg;  // an open one, or none
        std::shared_ptr<TiffPicture> tiff;  // likewise
    };

    void read(const PicturePlace& place, std::uint64_t most = std::numeric_limits<std::uint64_t>::max());
    Stored begin(std::span<const std::byte> file, ImageSize target);
    void finish(std::span<const std::byte> file, const Stored& stored, std::uint8_t* rgb);
    BesideColours beside_colours(const Stored& stored) const;

    std::vector<std::byte> file_;
    std::vector<std::uint8_t> pixels_, upright_;
    Resizer resizer_;
};

// Errors: UnreadableItem names the size when it is more than `most`.
void check_pixels(ImageSize size, std::uint64_t most = kMaxImagePixels);
// The same of `what` ("a WebP"), which is held whole while it is cut into tiles.
void check_held_whole(ImageSize size, const std::string& what);

// How many bytes of a file of so many are the picture's. Errors: UnreadableItem: none, or fewer than it should have.
std::uint64_t bytes_at(const PicturePlace& place, std::uint64_t file_bytes);
// Errors: UnreadableItem: a format that is not read.
[[noreturn]] void refuse_format(ImageFormat format);

}  // namespace offramp
