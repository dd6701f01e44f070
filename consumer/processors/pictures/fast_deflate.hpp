#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace offramp {

// Zlib streams (RFC 1950) by ISA-L, several times as fast as zlib's level 3 and smaller. Their bytes depend on what is
// added, on the pieces that it comes in, and on ISA-L's version, alone: not on memory or addresses, and on no x86-64
// processor that has SSE4.2 (others get ISA-L's code in C, which compresses otherwise). Owns ISA-L's tables. Thread:
// one. Errors: std::bad_alloc.
class FastDeflate {
  public:
    // Limit of all pieces of one stream: ISA-L counts in 32 bits.
    static constexpr std::size_t kMostBytes = std::size_t{1} << 30U;

    FastDeflate();
    ~FastDeflate();
    FastDeflate(FastDeflate&&) noexcept;
    FastDeflate& operator=(FastDeflate&&) noexcept;

    // The room that a stream of so many bytes needs, whatever they are.
    static std::size_t room_for(std::size_t bytes);

    // A new stream, in the place of the one before. `room` is borrowed until the last piece has been added.
    void begin(std::span<std::byte> room);
    // Blocks: until `piece`, which is not empty, is compressed.
    void add(std::span<const std::uint8_t> piece, bool is_last);
    // Bytes of the stream, once it has its last piece.
    std::size_t size() const;

  private:
    struct State;

    void begin_behind(std::uint8_t first);
    void append(std::span<const std::uint8_t> bytes);

    std::unique_ptr<State> state_;
    std::span<std::byte> room_;
    std::size_t used_ = 0;
    std::uint32_t adler_ = 1;
    bool is_first_ = true;
};

}  // namespace offramp
