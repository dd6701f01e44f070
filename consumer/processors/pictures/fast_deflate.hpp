#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

struct libdeflate_compressor;

namespace offramp {

// Zlib streams (RFC 1950) by libdeflate, faster than zlib's level 3 and smaller. Their bytes depend on what is
// compressed, and on libdeflate's version, alone. Owns its tables and the stream. Thread: one. Errors: std::bad_alloc.
class FastDeflate {
  public:
    FastDeflate();

    // Blocks: until all of it is compressed. Valid until the next call.
    std::span<const std::byte> compress(std::span<const std::uint8_t> bytes);

  private:
    struct Free {
        void operator()(libdeflate_compressor* compressor) const noexcept;
    };

    std::unique_ptr<libdeflate_compressor, Free> compressor_;
    std::vector<std::byte> room_;
};

}  // namespace offramp
