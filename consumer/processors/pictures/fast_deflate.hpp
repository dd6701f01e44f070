#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace offramp {

// Makes zlib streams (RFC 1950) with ISA-L: several times as fast as zlib's level 3, and smaller. The bytes depend only
// on the data, on how it is split into pieces, and on ISA-L's version. They do not depend on memory addresses, nor on
// the processor, if it is an x86-64 with SSE4.2; elsewhere ISA-L's C code compresses differently. Owns ISA-L's tables.
// Thread: one. Errors: std::bad_alloc.
class FastDeflate {
  public:
    // Limit for all pieces of one stream together: ISA-L counts in 32 bits.
    static constexpr std::size_t kMostBytes = std::size_t{1} << 30U;

    FastDeflate();
    ~FastDeflate();
    FastDeflate(FastDeflate&&) noexcept;
    FastDeflate& operator=(FastDeflate&&) noexcept;

    // The room that a stream of any data of this size needs.
    static std::size_t room_for(std::size_t bytes);

    // Begins a new stream, which replaces the previous one. `room` is borrowed until the last piece has been added.
    void begin(std::span<std::byte> room);
    // Blocks: until `piece` is compressed. `piece` must not be empty.
    void add(std::span<const std::uint8_t> piece, bool is_last);
    // Size of the stream in bytes, once its last piece is added.
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
