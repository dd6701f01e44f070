#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "common/app/images/geometry.hpp"
#include "common/app/images/picture_bytes.hpp"

namespace offramp {

// Decodes one JPEG file to 8-bit RGB with libjpeg-turbo. Each picture has its own decoder, so a damaged header or table
// does not affect the next picture. A file without Huffman tables (an MJPEG frame) gets the standard tables. CMYK and
// YCCK become RGB like in PIL's convert("RGB"). Thread: one at a time. Errors: UnreadableItem: truncated, damaged, an
// unsupported kind of JPEG; do not use the object after an error.
class JpegPicture {
  public:
    // Reads the header. The bytes are borrowed.
    explicit JpegPicture(std::span<const std::byte> file);
    explicit JpegPicture(FileWindow file);
    JpegPicture(const JpegPicture&) = delete;
    JpegPicture& operator=(const JpegPicture&) = delete;
    ~JpegPicture();

    ImageSize size() const;  // as stored in the file
    // True if decoding needs the whole picture in memory: it is progressive, or has one scan per colour.
    bool has_many_scans() const;
    // Call it before the first read(). If the target is at most half of the picture in both directions, the picture is
    // decoded at a half, a quarter or an eighth (a scaled inverse DCT, several times cheaper), never below the target.
    // Returns the size of the decoded picture.
    ImageSize scale_towards(ImageSize target);
    // Decodes the next `rows` rows. The last row also reads the file to its end mark.
    void read(std::uint32_t rows, std::uint8_t* rgb);

  private:
    struct Decoder;
    std::unique_ptr<Decoder> decoder_;
};

// Passes each segment before the first scan to `take`, with the second byte of its marker, until `take` returns false,
// or the file is damaged. `file`: begins like a JPEG file.
void for_each_jpeg_segment(std::span<const std::byte> file,
                           const std::function<bool(unsigned type, std::span<const std::byte> segment)>& take);

// True if the front of a JPEG file reaches its first scan, and so has all bytes before the pixels.
bool reaches_first_scan(std::span<const std::byte> front);

}  // namespace offramp
