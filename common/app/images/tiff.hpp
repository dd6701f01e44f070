#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/app/images/orientation.hpp"
#include "common/app/images/picture_bytes.hpp"

namespace offramp {

// What to decode: the colours; the alpha as gray; all channels as the file's own numbers, whatever they mean; or
// nothing but the size.
enum class TiffPart { Colours, Alpha, Numbers, Size };

// A TIFF whose parts can be decoded separately. If a file has several pictures, this is the first one in full
// resolution. Colours become 8-bit RGB: gray and palettes are expanded, 16 bits are scaled to 8 (0..65535 to 0..255),
// and CMYK is converted like in PIL. Alpha is dropped (premultiplied RGB is divided by it), and profiles are not
// applied. Numbers become float32, unchanged: a pixel's channels are together.
// Owns the file and its libtiff handles. Thread: one at a time; several pictures concurrently. Blocks: on the disk.
// Errors: UnreadableItem with the reason; the constructor: truncated, damaged, more than `most_pixels`, an unsupported
// layout (with the remedy).
class TiffPicture {
  public:
    explicit TiffPicture(PictureBytes bytes, std::uint64_t most_pixels = kMaxImagePixels,
                         TiffPart part = TiffPart::Colours);
    TiffPicture(TiffPicture&&) noexcept;
    TiffPicture& operator=(TiffPicture&&) noexcept;
    ~TiffPicture();

    ImageSize size() const;  // as stored in the file
    Orientation orientation() const;
    bool has_alpha() const;                  // required for TiffPart::Alpha
    std::uint32_t channels() const;          // of TiffPart::Numbers
    std::size_t pixel_bytes() const;         // 3, or 4 per channel of TiffPart::Numbers
    std::vector<std::byte> profile() const;  // ICC profile for RGB; empty: none
    // False: the file has strips of whole rows. A strip is decoded from its first row on. If each read begins where the
    // last one ended, no row is decoded twice.
    bool in_tiles() const;
    ImageSize tile() const;  // the size of a tile

    // Decodes a part inside the picture, oriented as stored in the file. `pixels` must hold pixel_bytes() for each of
    // the part's pixels. Decodes only the tiles that the part touches.
    void read(const PictureRect& part, std::uint8_t* pixels);

  private:
    class Reader;
    std::unique_ptr<Reader> reader_;
};

}  // namespace offramp
