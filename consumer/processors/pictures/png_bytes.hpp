#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace offramp {

// Rows of pixels as PNG (ISO 15948, 9.2) compresses them: each behind a byte that names its filter. `filtered` has room
// for as many rows, each a byte longer. No memory, any thread.

// Filter 0, as they are.
void copy_rows(std::span<const std::uint8_t> rows, std::size_t row_bytes, std::uint8_t* filtered);

// Filter 4: each byte less that one of its neighbours to the left, above and above to the left that is nearest to left
// plus above less above to the left. `above` is the row before these ones, or null at the top of a picture.
void subtract_paeth(std::span<const std::uint8_t> rows, std::size_t row_bytes, std::size_t pixel_bytes,
                    const std::uint8_t* above, std::uint8_t* filtered);

// A PNG file (ISO 15948), chunk after chunk, in room that is borrowed and has to suffice. Thread: one. Errors: none.
class PngChunks {
  public:
    static constexpr std::size_t kSignatureBytes = 8;
    static constexpr std::size_t kChunkBytes = 12;  // of a chunk, beside its data

    // Begins with the signature.
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
