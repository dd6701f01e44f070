#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace offramp {

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
