#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/app/images/encoded_picture.hpp"
#include "common/app/images/geometry.hpp"
#include "common/app/images/image_format.hpp"
#include "common/app/images/jpeg.hpp"
#include "common/app/images/orientation.hpp"
#include "common/app/images/picture_bytes.hpp"
#include "common/app/images/resize.hpp"
#include "common/app/images/tiff.hpp"
#include "common/app/images/whole_jpeg.hpp"

namespace offramp {

// Data of a picture file besides its colours.
struct BesideColours {
    std::vector<std::uint8_t> alpha;  // one byte per pixel, upright; empty: opaque
    std::vector<std::byte> profile;   // ICC profile for RGB; empty: none
};

// Decodes an image file to upright 8-bit RGB of one size: the whole picture, or its middle. Detects the format from the
// content, not the name. Keeps scratch memory between images, and no other state. Thread: one at a time. Blocks: while
// it reads. Errors: UnreadableItem with the reason in one line.
class ImageDecoder {
  public:
    // `rgb` must hold frame.size.rgb_bytes().
    void decode_file(const PicturePlace& place, const PictureFrame& frame, std::span<std::byte> rgb);
    void decode(std::span<const std::byte> file, const PictureFrame& frame, std::span<std::byte> rgb);
    // Reads a file for a decoder on a GPU, if that makes the same of it: a whole, plain JPEG (WholeJpegCheck).
    // Otherwise decodes it like decode_file(), and leaves `encoded` without a file.
    void read_for_gpu(const PicturePlace& place, const PictureFrame& frame, std::span<std::byte> rgb,
                      EncodedPicture& encoded);
    // Decodes the image upright at its own size, and returns that size. Resizes `rgb` to fit.
    ImageSize decode_file_in_full(const PicturePlace& place, std::vector<std::uint8_t>& rgb,
                                  BesideColours* beside = nullptr);

    // Returns only the upright size, from the bytes before the pixels. Pixels are not decoded, and usually not read.
    // With `tiff` Size, also of a TIFF whose colours are not read.
    ImageSize size_of_file(const PicturePlace& place, TiffPart tiff = TiffPart::Colours);

  private:
    // Frees the memory of an unusually large image, also after an error.
    struct TrimAtEnd {
        ImageDecoder& decoder;
        ~TrimAtEnd();
    };

    // An image at its stored size, or at the scale at which it is decoded.
    struct Stored {
        ImageFormat format = ImageFormat::Unknown;
        Orientation orientation = Orientation::Upright;
        ImageSize size;
        ImageSize full;                     // as stored in the file
        std::shared_ptr<JpegPicture> jpeg;  // null if the file is no JPEG
        std::shared_ptr<TiffPicture> tiff;  // likewise
    };

    void read(const PicturePlace& place, std::uint64_t most = std::numeric_limits<std::uint64_t>::max());
    Stored begin(std::span<const std::byte> file, ImageSize target);
    void finish(std::span<const std::byte> file, const Stored& stored, std::uint8_t* rgb);
    BesideColours beside_colours(const Stored& stored) const;

    std::vector<std::byte> file_;
    std::vector<std::uint8_t> pixels_, upright_;
    Resizer resizer_;
    std::unique_ptr<WholeJpegCheck> is_whole_;  // made by the first read_for_gpu()
};

// Throws UnreadableItem with the size if it has more than `most` pixels.
void check_pixels(ImageSize size, std::uint64_t most = kMaxImagePixels);
// The same check for `what` ("a WebP"), a picture that must be in memory as a whole while it is cut into tiles.
void check_held_whole(ImageSize size, const std::string& what);

// The picture's length in a file of `file_bytes` bytes. Errors: UnreadableItem: empty, or the file ends before the
// picture does.
std::uint64_t bytes_at(const PicturePlace& place, std::uint64_t file_bytes);
// Throws UnreadableItem for an unsupported format.
[[noreturn]] void refuse_format(ImageFormat format);

}  // namespace offramp
