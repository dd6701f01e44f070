#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/app/images/geometry.hpp"
#include "common/app/images/orientation.hpp"
#include "common/app/images/picture_bytes.hpp"

namespace offramp {

// The requested part of a TIFF's pixels: their colours, or their alpha as gray.
enum class TiffPart { Colours, Alpha };

// A TIFF's picture, of which any part can be decoded: the first one in full resolution, where a file has several. 8-bit
// RGB: gray and palettes are expanded, 16 bits scaled to 8 (0..65535 to 0..255), CMYK converted as PIL does, alpha is
// dropped (RGB that was multiplied by it is divided), profiles are not applied. Owns the file and libtiff's handles of
// it. Thread: one at a time; several pictures concurrently. Blocks: on the disk. Errors: UnreadableItem with the
// reason; the constructor: truncated, damaged, more than `most_pixels`, a layout that is not read, with the remedy.
class TiffPicture {
  public:
    explicit TiffPicture(PictureBytes bytes, std::uint64_t most_pixels = kMaxImagePixels,
                         TiffPart part = TiffPart::Colours);
    TiffPicture(TiffPicture&&) noexcept;
    TiffPicture& operator=(TiffPicture&&) noexcept;
    ~TiffPicture();

    ImageSize size() const;  // as stored in the file
    Orientation orientation() const;
    bool has_alpha() const;                  // without it no TiffPart::Alpha is given
    std::vector<std::byte> profile() const;  // ICC, of RGB; empty: none
    // Else it is in strips, of whole rows: in them, rows are decoded from a strip's first one on, and going on behind
    // the part that was read last decodes none twice.
    bool in_tiles() const;
    ImageSize tile() const;  // of those

    // A part inside the picture, as stored in the file: part.size.rgb_bytes(). Of tiles only those are decoded that the
    // part has pixels of.
    void read(const PictureRect& part, std::uint8_t* rgb);

  private:
    class Reader;
    std::unique_ptr<Reader> reader_;
};

}  // namespace offramp
