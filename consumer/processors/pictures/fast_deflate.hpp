#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace offramp {

// A zlib stream (RFC 1950) by ISA-L: several times as fast as zlib, of about the size of zlib's level 3. Its bytes
// depend on what is added, and on the pieces that it comes in, alone: every x86-64 processor makes the same ones, which
// is so of no higher level of ISA-L's. Owns its tables and the stream. Thread: one. Errors: std::bad_alloc.
class FastDeflate {
  public:
    FastDeflate();
    ~FastDeflate();
    FastDeflate(FastDeflate&&) noexcept;
    FastDeflate& operator=(FastDeflate&&) noexcept;

    // A new stream, in the place of the one before.
    void begin();
    void add(std::span<const std::uint8_t> piece);
    // The whole stream; valid until the next begin().
    std::span<const std::byte> end();

  private:
    struct State;

    void deflate(std::span<const std::uint8_t> piece, bool is_last);

    std::unique_ptr<State> state_;
    std::vector<std::byte> room_;
    std::size_t used_ = 0;
};

}  // namespace offramp
