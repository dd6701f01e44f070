#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/app/images/geometry.hpp"
#include "common/app/images/picture_bytes.hpp"

namespace offramp {

// One JPEG file as 8-bit RGB, by libjpeg-turbo. Each picture has its own decoder, so neither a damaged header nor a
// table reaches the next one; a file without Huffman tables (a frame of MJPEG) gets the standard ones. CMYK and YCCK
// become RGB as PIL's convert("RGB") does it. Thread: one at a time. Errors: UnreadableItem: truncated, damaged, a kind
// of JPEG that is not read; after one, nothing can be read.
class JpegPicture {
  public:
    // Reads the header. The bytes are borrowed.
    explicit JpegPicture(std::span<const std::byte> file);
    explicit JpegPicture(FileWindow file);
    JpegPicture(const JpegPicture&) = delete;
    JpegPicture& operator=(const JpegPicture&) = delete;
    ~JpegPicture();

    ImageSize size() const;  // in the file
    // Whether it is held whole to be decoded: progressive, or a scan for each colour.
    bool has_many_scans() const;
    // Before the first read(). When the target is at most half of the picture in both directions, the picture is
    // decoded at a half, a quarter or an eighth (a scaled inverse DCT, several times cheaper), never below the target.
    // Returns the size that rows have from now on.
    ImageSize scale_towards(ImageSize target);
    // The next `rows` of them. With the last one the file is read to its end mark.
    void read(std::uint32_t rows, std::uint8_t* rgb);

  private:
    struct Decoder;
    std::unique_ptr<Decoder> decoder_;
};

// True if the front of a JPEG file reaches its first scan, and thus has all bytes before the pixels.
bool reaches_first_scan(std::span<const std::byte> front);

}  // namespace offramp
