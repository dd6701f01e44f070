#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace offramp {

// Rows of pixels in the form that PNG compresses (ISO 15948, 9.2): a byte that names the filter precedes each row.
// `filtered` has room for the same number of rows, each one byte longer. Allocates no memory; any thread.

// Filter 0: copies the bytes unchanged.
void copy_rows(std::span<const std::uint8_t> rows, std::size_t row_bytes, std::uint8_t* filtered);

// Filter 4: subtracts a predictor from each byte. The predictor is the left, upper or upper-left neighbour, whichever
// is nearest to left + above - corner. `above` is the row before these ones, or null at the top of a picture.
void subtract_paeth(std::span<const std::uint8_t> rows, std::size_t row_bytes, std::size_t pixel_bytes,
                    const std::uint8_t* above, std::uint8_t* filtered);

// Builds a PNG file (ISO 15948), chunk by chunk, in borrowed memory that must suffice. Thread: one. Errors: none.
class PngChunks {
  public:
    static constexpr std::size_t kSignatureBytes = 8;
    static constexpr std::size_t kChunkBytes = 12;  // overhead of a chunk beside its data

    // Writes the signature.
    explicit PngChunks(std::span<std::byte> room);

    // `type` has four letters.
    void add(std::string_view type, std::span<const std::uint8_t> data);
    // For data that is made in place: write it to the front of the returned span, then pass its length to end().
    std::span<std::byte> begin(std::string_view type);
    void end(std::size_t data_bytes);

    std::span<const std::byte> file() const { return room_.first(used_); }

  private:
    void put(std::size_t at, std::uint32_t number);

    std::span<std::byte> room_;
    std::size_t used_ = 0;
};

}  // namespace offramp
